-- Removes units of a request while they are inside of the window: `cost` of them, after the first
-- `kept`, which stay.
rules.l = { refund = function(key, width, _, _, cost, at, kept, _, _, id)
  local score = num(call('ZSCORE', key, fmt('%s:%.0f', id, kept + 1)) or '')
  if not score or score + width <= max(now, last(key)) then return 0 end
  local back, first, newest = 0, kept + 1, kept + cost
  while first <= newest do
    local members, till = {}, min(newest, first + 499)
    for j = first, till do members[#members + 1] = fmt('%s:%.0f', id, j) end
    back = back + call('ZREM', key, unpack(members))
    first = till + 1
  end
  return back
end,
reset = function(key) call('DEL', key) end }
