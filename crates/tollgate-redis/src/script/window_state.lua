-- The counts of a fixed window or a sliding counter. The value is 'i n' or 'i n b g': n requests
-- in window i, b in the window before; g changes with each reset, as a bucket's does.
local function load(slides, key, width, now)
  local i, v = floor(now / width), call('GET', key)
  if not v then return i, 0, 0, 0, false end
  local j, n, b, g = v:match('^(%d+) (%d+) ?(%d*) ?(%d*)$')
  j, n, b, g = num(j), num(n), num(b) or 0, num(g) or 0
  -- A clock that goes back stays in the key's latest window.
  if j >= i then return j, n, b, g, true end
  return i, 0, slides and j == i - 1 and n or 0, g, true
end
local function ends(slides, i, width) return (i + (slides and 2 or 1)) * width end
local function store(slides, key, width, i, n, b, g, life)
  local v = (b > 0 or g > 0) and fmt('%.0f %.0f %.0f %.0f', i, n, b, g) or fmt('%.0f %.0f', i, n)
  put(key, v, life or ends(slides, i, width) - now)
end
