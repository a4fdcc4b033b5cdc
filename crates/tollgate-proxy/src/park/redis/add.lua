-- Keeps a request, if the bounds have room. Answers how many of its queue wait, or 0.
local stream, counts, dead_of, bytes_of, entries, order, due = unpack(KEYS)
local rule, queue, id, entry, request, bytes, most, most_of_key, most_bytes, most_bytes_of_key = unpack(ARGV)
local function count(name)
  return tonumber(redis.call('HGET', counts, name .. ':' .. rule) or 0)
end
local ahead = redis.call('XLEN', stream)
local of_key = ahead + tonumber(redis.call('HGET', dead_of, queue) or 0)
local bytes_of_key = tonumber(redis.call('HGET', bytes_of, queue) or 0)
if count('parked') + count('dead') >= tonumber(most)
  or of_key >= tonumber(most_of_key)
  or count('bytes') + tonumber(bytes) > tonumber(most_bytes)
  or bytes_of_key + tonumber(bytes) > tonumber(most_bytes_of_key) then
  return 0
end
-- The first write: a server that has no memory left refuses this one, and nothing is written.
local place = redis.call('XADD', stream, '*', 'id', id, 'request', request)
if ahead == 0 then
  redis.pcall('XGROUP', 'CREATE', stream, 'drain', 0)
end
redis.call('HINCRBY', counts, 'parked:' .. rule, 1)
redis.call('HINCRBY', counts, 'bytes:' .. rule, bytes)
redis.call('HINCRBY', bytes_of, queue, bytes)
redis.call('HSET', entries, id, place .. ' ' .. entry)
redis.call('ZADD', order, redis.call('HINCRBY', counts, 'next', 1), id)
local time = redis.call('TIME')
redis.call('ZADD', due, 'NX', time[1] * 1000 + math.floor(time[2] / 1000), queue)
return ahead + 1
