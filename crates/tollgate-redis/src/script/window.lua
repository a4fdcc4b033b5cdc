-- Decides for a window. Arguments: width, limit, the unit in which a sliding counter measures how
-- much of the width has passed, cost.
local function window(slides) return function(key, width, limit, unit, cost)
  local i, n, b, g = load(slides, key, width, now)
  local units, passed = width / unit, max(0, floor((now - i * width) / unit))
  local left = max(0, limit - n - ceil(b * (units - passed) / units))
  local function clear(n)
    return n > 0 and ends(slides, i, width) - now or b > 0 and (i + 1) * width - now or 0
  end
  if cost > limit then return -1, left, 0, clear(n), 0, 0, 0, 0 end
  if cost == 0 then return 1, left, 0, clear(n), 0, 0, 0, 0 end
  if cost <= left then
    return 1, left - cost, 0, clear(n + cost), 0, i, 0, g, function()
      store(slides, key, width, i, n + cost, b, g)
    end
  end
  -- When `before` requests of the window before leave so much room, in units of this window.
  local function from(before, room)
    if room < 0 then return nil elseif before <= room then return 0 end
    local overlap = floor(room * units / before)
    return overlap > 0 and units - overlap or nil
  end
  local here = slides and from(b, limit - n - cost)
  if here then return 0, left, i * width + here * unit - now, clear(n), 0, 0, 0, 0 end
  local there = slides and (from(n, limit - cost) or units) or 0
  return 0, left, (i + 1) * width + there * unit - now, clear(n), 0, 0, 0, 0
end end
rules.f, rules.s = window(false), window(true)
