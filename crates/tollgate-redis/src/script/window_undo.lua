-- Gives back a charge in window `was`, while that window counts.
local function window(slides) return { refund = function(key, width, _, _, cost, at, was, _, cg)
  local i, n, b, g = load(slides, key, width, max(now, at))
  local back = 0
  if g ~= cg then return 0
  elseif i == was then back = min(cost, n); n = n - back
  elseif i == was + 1 then back = min(cost, b); b = b - back end
  -- A refund of nothing must not move the key to a later window.
  if back > 0 then store(slides, key, width, i, n, b, g) end
  return back
end,
reset = function(key, width)
  local i, _, _, g, exists = load(slides, key, width, now)
  if exists then store(slides, key, width, 0, 0, 0, max(now, g + 1), ends(slides, i, width) - now) end
end } end
rules.f, rules.s = window(false), window(true)
