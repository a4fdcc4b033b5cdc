-- Gives a request a new entry, and takes it where its state belongs: into its queue, to the dead,
-- or to the ended. Answers whether that was done: the process `me` must have the request for
-- itself; without `me`, none may, and the entry must be the one that the caller has read.
local stream, counts, dead_of, bytes_of, entries, order, due, ended, dead = unpack(KEYS)
local me, lease, queue, rule, id, from, to, place, known, entry, bytes, pause, most = unpack(ARGV)
if me == '' and redis.call('HGET', entries, id) ~= known then
  return 0
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if from == 'parked' then
  -- Its queue is gone with its last request, or with all that the server knew.
  if redis.call('EXISTS', stream) == 0 then
    return 0
  end
  local held = redis.call('XPENDING', stream, 'drain', place, place, 1)[1]
  if me == '' then
    if held and held[3] < tonumber(lease) then
      return 0
    end
  elseif not held or held[2] ~= me then
    return 0
  end
end
if from == to then
  -- As idle as one whose process has died, so any process may have it after the pause.
  redis.call('XCLAIM', stream, 'drain', me, 0, place, 'IDLE', lease, 'JUSTID')
  redis.call('HSET', entries, id, place .. ' ' .. entry)
  redis.call('ZADD', due, now + pause, queue)
  return 1
end
local source = from == 'parked' and stream or dead
local request = redis.call('XRANGE', source, place, place)[1]
if not request then
  return 0
end
-- The first write frees memory, so the others may follow on a server that has none left.
if from == 'parked' then
  redis.call('XACK', stream, 'drain', place)
end
redis.call('XDEL', source, place)
redis.call('HINCRBY', counts, from .. ':' .. rule, -1)
if from == 'dead' then
  if redis.call('HINCRBY', dead_of, queue, -1) <= 0 then
    redis.call('HDEL', dead_of, queue)
  end
elseif redis.call('XLEN', stream) == 0 then
  redis.call('DEL', stream)
  redis.call('ZREM', due, queue)
else
  redis.call('ZADD', due, now, queue)
end
if to == 'ended' then
  place = '-'
  redis.call('HINCRBY', counts, 'bytes:' .. rule, -bytes)
  if redis.call('HINCRBY', bytes_of, queue, -bytes) <= 0 then
    redis.call('HDEL', bytes_of, queue)
  end
  redis.call('RPUSH', ended, id)
  if redis.call('LLEN', ended) > tonumber(most) then
    local oldest = redis.call('LPOP', ended)
    redis.call('HDEL', entries, oldest)
    redis.call('ZREM', order, oldest)
  end
else
  local target = to == 'parked' and stream or dead
  place = redis.call('XADD', target, '*', 'id', id, 'request', request[2][4])
  redis.call('HINCRBY', counts, to .. ':' .. rule, 1)
  if to == 'dead' then
    redis.call('HINCRBY', dead_of, queue, 1)
  else
    redis.pcall('XGROUP', 'CREATE', stream, 'drain', 0)
    redis.call('ZADD', due, 'NX', now, queue)
  end
end
redis.call('HSET', entries, id, place .. ' ' .. entry)
return 1
