-- Checks of one bucket in the fewest steps, each for itself. ARGV: the time, or '' for the server's;
-- slack in ms; p, q, capacity; the cost of each key's request.
-- Returns the time; for each key verdict, remaining, wait, reset, and T and f of the charge. The
-- verdict -2 leaves a key with marks, or with the fraction of another rate, to bucket.lua.
local floor, ceil, fmt, num, call = math.floor, math.ceil, string.format, tonumber, redis.call
local now, slack, p, q, capacity = num(ARGV[1]), ARGV[2], num(ARGV[3]), num(ARGV[4]), num(ARGV[5])
if not now then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local out
for n = 1, #KEYS do
  local key, cost, at = KEYS[n], num(ARGV[5 + n]), 6 * n - 4
  local v = call('GET', key)
  local T, f, was = v and num(v), 0, nil
  if v and not T then
    T, f, was = v:match('^(%d+) (%d+) (%d+)$')
    T, f = num(T), num(f)
  end
  local verdict, left, wait, clear, T2, f2 = -2, 0, 0, 0, 0, 0
  if not v or f == 0 or num(was) == p then
    if not T or T < now then T, f = now, 0 end
    local debt, need = (T - now) * p + f, cost * q
    local room = capacity * q - debt
    if cost > capacity then
      verdict, left, clear = -1, room > 0 and floor(room / q) or 0, ceil(debt / p)
    elseif need > room and cost > 0 then
      verdict, left, wait, clear = 0, room > 0 and floor(room / q) or 0, ceil((need - room) / p), ceil(debt / p)
    else
      verdict, left, clear = 1, room > need and floor((room - need) / q) or 0, ceil((debt + need) / p)
      if cost > 0 then
        T2, f2 = T + floor((f + need) / p), (f + need) % p
        local value = f2 > 0 and fmt('%.0f %.0f %.0f', T2, f2, p) or fmt('%.0f', T2)
        call('SET', key, value, 'PX', ceil((T2 + 1 - now) / 1000) + slack)
      end
    end
  end
  if n == 1 then
    -- A table that is made at its size costs less than one that grows.
    out = { now, verdict, left, wait, clear, T2, f2 }
  else
    out[at], out[at + 1], out[at + 2], out[at + 3], out[at + 4], out[at + 5] = verdict, left, wait, clear, T2, f2
  end
end
return out
