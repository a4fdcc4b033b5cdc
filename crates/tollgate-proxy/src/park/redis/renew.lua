-- Prolongs the time for which a process has a request for itself. Answers whether it had it still.
local stream, due = unpack(KEYS)
local me, lease, queue, place = unpack(ARGV)
if redis.call('EXISTS', stream) == 0 then
  return 0
end
local held = redis.call('XPENDING', stream, 'drain', place, place, 1)[1]
if not held or held[2] ~= me then
  return 0
end
redis.call('XCLAIM', stream, 'drain', me, 0, place, 'JUSTID')
local time = redis.call('TIME')
redis.call('ZADD', due, time[1] * 1000 + math.floor(time[2] / 1000) + lease, queue)
return 1
