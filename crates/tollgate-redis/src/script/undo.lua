-- ARGV, from the fifth: the charge's id; its time; its cost; kind and three arguments of each
-- limit; for each limit the receipt's three numbers; when a reservation departs. KEYS: the keys in
-- the order of the limits; for a refund one more, by which it happens once even if the network
-- sends it twice.
-- Returns the time; whether it happened; for each limit how many units came back.
local id, at, cost = ARGV[5], num(ARGV[6]), num(ARGV[7])
local out = { now, 1 }
if verb == 'refund' and not call('SET', KEYS[limits + 1], 1, 'NX', 'PX', 60000) then
  out[2] = 0
  return answer(out)
end
local departs = num(ARGV[8 + 7 * limits] or '')
for n = 1, limits do
  local a, c = 4 + 4 * n, 5 + 4 * limits + 3 * n
  local rule, x, y, z = rules[ARGV[a]], num(ARGV[a + 1]), num(ARGV[a + 2]), num(ARGV[a + 3])
  if departs and now >= departs then
    out[n + 2] = 0
  elseif verb == 'reset' then
    rule.reset(KEYS[n], x, y, z)
  else
    out[n + 2] = rule.refund(KEYS[n], x, y, z, cost, at, num(ARGV[c]), num(ARGV[c + 1]), num(ARGV[c + 2]), id)
  end
end
return answer(out)
