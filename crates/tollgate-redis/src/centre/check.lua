-- A check of one bucket whose charges are forwarded to other centres.
-- KEYS: the key; for each other centre, the set of the keys with charges to forward to it.
-- ARGV: 1 to charge, 0 to look; p, q, capacity, cost; the horizon in us; slack in ms.
-- The key is a hash. T, f, p: the debt ends f/p us after T. b, c: since when the key is here, and
-- all tokens charged here since. q, n: the quota's other numbers. b:us, c:us: what is known of b
-- and c of the centre `us`. Numbers are whole and at most 2^53; %.0f prints all digits.
local floor, ceil, max, num, call = math.floor, math.ceil, math.max, tonumber, redis.call
local p, q, capacity, cost = num(ARGV[2]), num(ARGV[3]), num(ARGV[4]), num(ARGV[5])
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local function answer(...) return struct.pack('<ddddddddddddd', ...) end
local v = call('HMGET', KEYS[1], 'T', 'f', 'p', 'b', 'c')
local T, f = num(v[1]), num(v[2]) or 0
-- Another rate's fraction means nothing here: the debt ends up to 1 us later.
if T and f > 0 and num(v[3]) ~= p then T, f = T + 1, 0 end
if not T or T < now then T, f = now, 0 end
local debt, need = (T - now) * p + f, cost * q
-- Less than nothing, if other centres charged more than fits.
local room = capacity * q - debt
local left, clear = max(0, floor(room / q)), ceil(debt / p)
if cost > capacity then return answer(now, -1, 1, 0, cost, -1, left, 0, clear, 0, 0, 0, 0) end
if cost == 0 then return answer(now, 1, 0, 0, 0, 1, left, 0, clear, 0, 0, 0, 0) end
if need > room then
  local wait = ceil((need - room) / p)
  return answer(now, 0, 1, wait, cost, 0, left, wait, clear, 0, 0, 0, 0)
end
if ARGV[1] == '1' then
  local function whole(n) return string.format('%.0f', n) end
  T, f = T + floor((f + need) / p), (f + need) % p
  call('HSET', KEYS[1], 'T', whole(T), 'f', whole(f), 'p', whole(p), 'q', whole(q), 'n', whole(capacity),
    'b', v[4] or whole(now), 'c', whole((num(v[5]) or 0) + cost))
  call('PEXPIRE', KEYS[1], whole(ceil(max(T + 1 - now, num(ARGV[6])) / 1000) + ARGV[7]))
  -- The time of the first charge that is to be forwarded stays.
  for n = 2, #KEYS do call('ZADD', KEYS[n], 'NX', whole(now), KEYS[1]) end
end
return answer(now, 1, 0, 0, cost, 1, floor((room - need) / q), 0, ceil((debt + need) / p), 0, 0, 0, 0)
