-- ARGV, from the fifth: the longest wait of a reservation, in us, or the least that is taken; the
-- request's id; kind and three arguments of each limit; the cost of each request. KEYS: the keys of
-- each request in the order of the limits. A request is admitted by all of its limits, or charges
-- none.
-- Returns the time; for each request its verdict (1, 0, or -1: never), the number and the wait of
-- the limit that refuses longest, and the cost; for each of its limits verdict, remaining, wait,
-- reset, delay, and three numbers for the receipt.
local patience, least, id = verb == 'reserve' and num(ARGV[5]) or nil, max(1, num(ARGV[5])), ARGV[6]
local out, size, first = { now }, 0, 6 + 4 * limits
local function look(key, limit, cost, id)
  local a = 3 + 4 * limit
  return rules[ARGV[a]](key, num(ARGV[a + 1]), num(ARGV[a + 2]), num(ARGV[a + 3]), cost, patience, id)
end
for request = 1, #KEYS / limits do
  local at, before, id = 1 + size, (request - 1) * limits, id .. '.' .. request
  local cost, verdict, number, longest, writes = num(ARGV[first + request]), 1, 0, -1, {}
  if verb == 'take' then
    -- As many as all limits have, up to the cost. If there are too few: a check of the least.
    local most = cost
    for n = 1, limits do
      local _, left = look(KEYS[before + n], n, 0, id)
      most = min(most, left)
    end
    cost = min(cost, max(least, most))
  end
  for n = 1, limits do
    local ok, left, wait, clear, delay, r1, r2, g, write = look(KEYS[before + n], n, cost, id)
    local o = at + 4 + (n - 1) * 8
    out[o + 1], out[o + 2], out[o + 3], out[o + 4] = ok, left, wait, clear
    out[o + 5], out[o + 6], out[o + 7], out[o + 8] = delay, r1, r2, g
    writes[n] = write
    if ok < 0 then
      if verdict >= 0 then verdict, number, longest = -1, n, 0 end
    elseif ok < 1 and verdict >= 0 and wait > longest then verdict, number, longest = 0, n, wait end
  end
  out[at + 1], out[at + 2], out[at + 3], out[at + 4] = verdict, number, max(longest, 0), cost
  size = 4 + 8 * limits + size
  if verdict < 1 then
    -- A limit that would have admitted stays as it is.
    for n = 1, limits do
      local o = at + 4 + (n - 1) * 8
      if limits > 1 and out[o + 1] > 0 then
        local _, left, _, clear = look(KEYS[before + n], n, 0, id)
        out[o + 2], out[o + 4], out[o + 5] = left, clear, 0
      end
    end
  elseif verb ~= 'peek' then
    for n = 1, limits do
      if writes[n] then writes[n]() end
    end
  end
end
return answer(out)
