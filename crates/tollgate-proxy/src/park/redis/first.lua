-- Takes the first request of a queue, unless another process has it.
local stream, entries, due = unpack(KEYS)
local me, lease, queue = unpack(ARGV)
if redis.call('XLEN', stream) == 0 then
  redis.call('ZREM', due, queue)
  return false
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- The first write frees no memory and takes none, so the others may follow on a full server.
local taken = redis.call('XAUTOCLAIM', stream, 'drain', me, lease, '-', 'COUNT', 1)[2][1]
if not taken then
  local held = redis.call('XPENDING', stream, 'drain', '-', '+', 1)[1]
  if held then
    redis.call('ZADD', due, now + math.max(lease - held[3], 1), queue)
    return false
  end
  local read = redis.call('XREADGROUP', 'GROUP', 'drain', me, 'COUNT', 1, 'STREAMS', stream, '>')
  taken = read and read[1][2][1]
end
if not taken then
  return false
end
redis.call('ZADD', due, now + lease, queue)
return {taken[1], redis.call('HGET', entries, taken[2][2]), taken[2][4]}
