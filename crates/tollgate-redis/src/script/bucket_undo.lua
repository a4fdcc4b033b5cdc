-- Gives back the charge of a request at `at`, after which the debt ended at cT + cf/p: at most the
-- least debt since then, which is what the bucket would be without the request.
--
-- Refunds alone keep a lower bound of it. A refund out of order at m leaves a step in the tail,
-- ';a b L': it was a us before m, and the refund before it b us earlier; since then the debt was
-- never below L grains. Between two refunds, time lowers the debt and charges raise it, so charges
-- need not be seen.
local steps_kept = 15
-- The steps of a tail as rows of time, time of the refund before, and L. The last is at m.
local function unpacked(tail, m)
  local steps = {}
  for a, b, least in tail:gmatch('(%d+) (%d+) (%d+)') do
    local x = m - num(a)
    steps[#steps + 1] = { x, x - num(b), num(least) }
  end
  return steps
end
local function packed(steps, m)
  local words = {}
  for n, step in ipairs(steps) do
    words[n] = fmt(';%.0f %.0f %.0f', m - step[1], step[1] - step[2], step[3])
  end
  return table.concat(words)
end
-- Removes the step, but for the last, that raises the bound of the one before by the smallest part.
local function thin(steps)
  local place, told, below = 1, math.huge, 0
  for n = 1, #steps - 1 do
    local least = steps[n][3]
    if (least - below) / least < told then place, told = n, (least - below) / least end
    below = least
  end
  table.remove(steps, place)
end
local function bucket(queue) return { refund = function(key, p, q, capacity, cost, at, cT, cf, cg)
  local T, f, m, h, r, g, tail = load(key, p)
  -- The key's time never goes back behind its last refund.
  local now = max(now, at, m)
  local need, debt = cost * q, T and (T - now) * p + f or 0
  if debt <= 0 or g ~= cg or cost == 0 then return 0 end
  -- The debt at a later time, if nothing but time lowers it.
  local function charged(x) return (cT - x) * p + cf end
  local newest, marked, back = T == cT and f == cf, m > 0 and m >= at, 0
  local left = marked and 0 or max(0, min(need, charged(now)))
  if queue then
    -- The requests behind it have their departures already.
    back = newest and need or 0
  elseif newest and not marked then
    back = left
  elseif r > 0 then
    -- What the departure of a later reservation depends on stays charged.
    back = debt > capacity * q and left - max(0, (T - cT) * p + f - cf) or left
    m = now
  else
    local steps = unpacked(tail, m)
    local last = #steps > 0 and steps[#steps][3] - (now - m) * p or 0
    local low, after = max(left, (at - now) * p + need), false
    for _, step in ipairs(steps) do
      step[3] = min(step[3], last)
      if step[1] <= at then
        low = max(low, step[3])
      elseif not after then
        after = true
        -- No refund is between them, so from `at` to the step time alone lowered the debt.
        if step[2] < at then low = max(low, min(step[3], charged(step[1]))) end
      end
    end
    low = min(low, debt)
    back = max(0, min(need, low))
    local kept = {}
    for _, step in ipairs(steps) do
      step[3] = step[1] > at and step[3] - back or min(step[3], low - back)
      if step[3] > 0 then kept[#kept + 1] = step end
    end
    if debt > back then kept[#kept + 1] = { now, m, debt - back } end
    if #kept > steps_kept then thin(kept) end
    m, tail = now, packed(kept, now)
  end
  back = max(0, min(back, debt))
  -- A mark outlives every receipt from before it: it stays until the debt before the refund ends.
  store(key, p, now + floor((debt - back) / p), (debt - back) % p, m, max(h, T + 1), r, g, tail)
  return ceil(back / q)
end,
reset = function(key, p)
  local T, _, _, h, _, g = load(key, p)
  if T then store(key, p, 0, 0, 0, max(h, T + 1, now + 1), 0, max(now, g + 1), '') end
end } end
rules.b, rules.q = bucket(false), bucket(true)
