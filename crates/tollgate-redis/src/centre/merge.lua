-- Takes over what another centre has charged. May come late, twice, and out of order.
-- KEYS: the keys. ARGV: the other centre; its time when it sent; the horizon in us; slack in ms;
-- how many centres there are; for each key b, c, p, q, n.
-- Returns for each key 1, or 0 if it must be sent again.
local floor, ceil, max, num, call = math.floor, math.ceil, math.max, tonumber, redis.call
local from, sent, horizon, slack, centres = ARGV[1], num(ARGV[2]), num(ARGV[3]), num(ARGV[4]), num(ARGV[5])
local function whole(n) return string.format('%.0f', n) end
local time = call('TIME')
local now, out = time[1] * 1000000 + time[2], {}
for n, key in ipairs(KEYS) do
  local a = 1 + n * 5
  local born, total = num(ARGV[a]), num(ARGV[a + 1])
  local p, q, capacity = num(ARGV[a + 2]), num(ARGV[a + 3]), num(ARGV[a + 4])
  local v = call('HMGET', key, 'T', 'f', 'p', 'b:' .. from, 'c:' .. from)
  local was, seen = num(v[4]) or 0, num(v[5]) or 0
  if born > was then seen = 0 end
  -- What was known may be forgotten by now, if it was sent longer ago than the horizon.
  local stale = born < was or now - sent > horizon
  out[n] = stale and 0 or 1
  if not stale and total > seen then
    local T, f, new = num(v[1]), num(v[2]) or 0, total - seen
    if T and f > 0 and num(v[3]) ~= p then T, f = T + 1, 0 end
    if not T or T < now then T, f = now, 0 end
    -- It is charged whether there is room or not, up to a debt that only a long cut can make.
    local most = capacity + centres * (capacity + ceil(horizon * p / q))
    local room = most * q - ((T - now) * p + f)
    if new < most and new * q <= room then
      T, f = T + floor((f + new * q) / p), (f + new * q) % p
    elseif room > 0 then
      T, f = now + floor(most * q / p), (most * q) % p
    end
    call('HSET', key, 'T', whole(T), 'f', whole(f), 'p', whole(p), 'b:' .. from, whole(born), 'c:' .. from, whole(total))
    call('PEXPIRE', key, whole(ceil(max(T + 1 - now, horizon) / 1000) + slack))
  end
end
return out
