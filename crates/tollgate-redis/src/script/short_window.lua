-- Checks of one fixed window or sliding counter in the fewest steps, each for itself: `slides` says
-- which. ARGV: the time, or '' for the server's; slack in ms; width, limit, the unit in which a
-- sliding counter measures how much of the width has passed; the cost of each key's request.
-- Returns the time; for each key verdict, remaining, wait, reset, the window of the charge, and 0.
-- The verdict -2 leaves a key with marks to window.lua.
local floor, ceil, max, fmt, num, call = math.floor, math.ceil, math.max, string.format, tonumber, redis.call
local now, slack, width, limit, unit = num(ARGV[1]), ARGV[2], num(ARGV[3]), num(ARGV[4]), num(ARGV[5])
if not now then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local units, current = width / unit, floor(now / width)
local out
for k = 1, #KEYS do
  local key, cost, at = KEYS[k], num(ARGV[5 + k]), 6 * k - 4
  local v = call('GET', key)
  local i, n, b, marks = current, 0, 0, ''
  if v then
    local j, count, before
    j, count, before, marks = v:match('^(%d+) (%d+) ?(%d*) ?(%d*)$')
    j = num(j)
    if j >= current then
      -- A clock that goes back stays in the key's latest window.
      i, n, b = j, num(count), num(before) or 0
    elseif slides and j == current - 1 then
      b = num(count)
    end
  end
  local verdict, left, wait, clear, charged = -2, 0, 0, 0, 0
  if marks == '' or marks == '0' then
    local passed = max(0, floor((now - i * width) / unit))
    left = max(0, limit - n - ceil(b * (units - passed) / units))
    local ends = (i + (slides and 2 or 1)) * width
    -- What of the key is left in the end: this window's count, or else the one before.
    clear = n > 0 and ends - now or b > 0 and (i + 1) * width - now or 0
    if cost > limit then
      verdict = -1
    elseif cost == 0 then
      verdict = 1
    elseif cost <= left then
      verdict, left, clear, charged = 1, left - cost, ends - now, i
      local value = b > 0 and fmt('%.0f %.0f %.0f 0', i, n + cost, b) or fmt('%.0f %.0f', i, n + cost)
      call('SET', key, value, 'PX', ceil((ends - now) / 1000) + slack)
    else
      verdict, wait = 0, (i + 1) * width - now
      if slides then
        -- When `before` requests of the window before leave so much room, in units of this window.
        local function from(before, room)
          if room < 0 then return nil elseif before <= room then return 0 end
          local overlap = floor(room * units / before)
          return overlap > 0 and units - overlap or nil
        end
        local here = from(b, limit - n - cost)
        wait = here and i * width + here * unit - now or wait + (from(n, limit - cost) or units) * unit
      end
    end
  end
  if k == 1 then
    -- A table that is made at its size costs less than one that grows.
    out = { now, verdict, left, wait, clear, charged, 0 }
  else
    out[at], out[at + 1], out[at + 2], out[at + 3], out[at + 4], out[at + 5] = verdict, left, wait, clear, charged, 0
  end
end
return out
