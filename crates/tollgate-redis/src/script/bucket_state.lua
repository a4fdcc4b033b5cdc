-- A bucket gains p grains a us, and a token is q grains. Its value is 'T', 'T f p' or
-- 'T f p m h r g': the debt ends f/p us after T. The last four are marks, which count until h:
-- m: the time of the last refund out of order; r: 1 once a reservation was made; g: changes with
-- each reset, so that no receipt from before it gives anything back.
local function load(key, p)
  local v = call('GET', key)
  local T = v and num(v)
  if T or not v then return T or nil, 0, 0, 0, 0, 0 end
  local t, f, was, m, h, r, g = v:match('^(%d+) (%d+) (%d+) ?(%d*) ?(%d*) ?(%d*) ?(%d*)$')
  T, f = num(t), num(f)
  -- Another rate's fraction means nothing here: the debt ends up to 1 us later.
  if f > 0 and num(was) ~= p then T, f = T + 1, 0 end
  return T, f, num(m) or 0, num(h) or 0, num(r) or 0, num(g) or 0
end
local function store(key, p, T, f, m, h, r, g)
  if m > 0 or r > 0 or g > 0 then
    h = max(h, T + 1)
    put(key, fmt('%.0f %.0f %.0f %.0f %.0f %.0f %.0f', T, f, p, m, h, r, g), h - now)
  else
    put(key, f > 0 and fmt('%.0f %.0f %.0f', T, f, p) or fmt('%.0f', T), T + 1 - now)
  end
end
