-- A check of one bucket in the fewest steps. Returns nothing for a key with marks, or with the
-- fraction of another rate: bucket.lua reads them.
-- ARGV: the time, or '' for the server's; slack in ms; p, q, capacity, cost (from 1 to capacity).
local now, p, q, capacity, cost = tonumber(ARGV[1]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local v = redis.call('GET', KEYS[1])
local T, f = v and tonumber(v), 0
if v and not T then
  local t, g, was = v:match('^(%d+) (%d+) (%d+)$')
  if tonumber(was) ~= p then return false end
  T, f = tonumber(t), tonumber(g)
end
if not T or T < now then T, f = now, 0 end
local debt, need = (T - now) * p + f, cost * q
local room = capacity * q - debt
if need > room then
  return { now, 0, room > 0 and math.floor(room / q) or 0, math.ceil((need - room) / p), math.ceil(debt / p) }
end
T, f = T + math.floor((f + need) / p), (f + need) % p
local value = f > 0 and string.format('%.0f %.0f %.0f', T, f, p) or string.format('%.0f', T)
redis.call('SET', KEYS[1], value, 'PX', math.ceil((T + 1 - now) / 1000) + ARGV[2])
return { now, 1, math.floor((room - need) / q), 0, math.ceil((debt + need) / p), T, f }
