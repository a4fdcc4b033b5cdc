-- Gives back the charge of a request at `at`, after which the debt ended at cT + cf/p.
local function bucket(queue) return { refund = function(key, p, q, capacity, cost, at, cT, cf, cg)
  local T, f, m, h, r, g = load(key, p)
  local now = max(now, at)
  if not T or T < now or g ~= cg or cost == 0 then return 0 end
  local need, debt = cost * q, (T - now) * p + f
  local left = max(0, min(need, (cT - now) * p + cf))
  local newest, marked, back = T == cT and f == cf, m > 0 and m >= at, nil
  if queue then
    -- The requests behind it have their departures already.
    back = newest and need or 0
  elseif newest and not marked then
    back = left
  else
    if not marked then
      back = left
      -- What the departure of a later reservation depends on stays charged.
      if debt > capacity * q then back = left - max(0, (T - cT) * p + f - cf) end
    else
      back = r > 0 and 0 or (at - now) * p + need
    end
    m = max(m, now)
  end
  back = max(0, min(back, debt))
  -- A mark outlives every receipt from before it: it stays until the debt before the refund ends.
  store(key, p, now + floor((debt - back) / p), (debt - back) % p, m, max(h, T + 1), r, g)
  return ceil(back / q)
end,
reset = function(key, p)
  local T, _, _, h, _, g = load(key, p)
  if T then store(key, p, 0, 0, 0, max(h, T + 1, now + 1), 0, max(now, g + 1)) end
end } end
rules.b, rules.q = bucket(false), bucket(true)
