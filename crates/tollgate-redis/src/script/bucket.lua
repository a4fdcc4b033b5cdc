-- Decides for a bucket. Arguments: p, q, capacity, cost; the longest wait of a reservation.
local function bucket(queue) return function(key, p, q, capacity, cost, patience)
  local T, f, m, h, r, g, tail = load(key, p)
  if h <= now then m, h, r, g, tail = 0, 0, 0, 0, '' end
  if not T or T < now then T, f = now, 0 end
  local debt, need = (T - now) * p + f, cost * q
  -- No sum of debt and need: it may be beyond 2^53.
  local room = capacity * q - debt
  local left, clear = room > 0 and floor(room / q) or 0, ceil(debt / p)
  if cost > capacity then return -1, left, 0, clear, 0, 0, 0, 0 end
  if cost == 0 then return 1, left, 0, clear, 0, 0, 0, 0 end
  local wait = need > room and ceil((need - room) / p) or 0
  local delay = queue and clear or wait
  if wait > 0 and (queue or not patience) then return 0, left, wait, clear, 0, 0, 0, 0 end
  if patience and delay > patience then return 0, left, delay, clear, 0, 0, 0, 0 end
  local T2, f2 = T + floor((f + need) / p), (f + need) % p
  -- What a reservation depends on is not in the tail.
  if patience and not queue then r, tail = 1, '' end
  left = need < room and floor((room - need) / q) or 0
  return 1, left, 0, ceil((debt + need) / p), delay, T2, f2, g, function()
    store(key, p, T2, f2, m, h, r, g, tail)
  end
end end
rules.b, rules.q = bucket(false), bucket(true)
