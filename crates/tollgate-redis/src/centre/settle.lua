-- What the other centre has taken over waits no more. What was charged meanwhile waits since then.
-- KEYS: the set of keys. ARGV: when they were collected; for each key its name, b and the
-- confirmed c, or `-`.
local time = redis.call('TIME')
for n = 2, #ARGV, 3 do
  local v = redis.call('HMGET', ARGV[n], 'b', 'c')
  if v[1] == ARGV[n + 1] and v[2] == ARGV[n + 2] then
    redis.call('ZREM', KEYS[1], ARGV[n])
  else
    redis.call('ZADD', KEYS[1], 'XX', ARGV[1], ARGV[n])
  end
end
return time[1] * 1000000 + time[2]
