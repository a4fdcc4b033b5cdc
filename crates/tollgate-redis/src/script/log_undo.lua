-- Removes a request's units while they are inside of the window.
rules.l = { refund = function(key, width, _, _, cost, at, _, _, _, id)
  local score = num(call('ZSCORE', key, fmt('%s:1', id)) or '')
  if not score or score + width <= max(now, last(key)) then return 0 end
  local back, first = 0, 1
  while first <= cost do
    local members, till = {}, min(cost, first + 499)
    for j = first, till do members[#members + 1] = fmt('%s:%.0f', id, j) end
    back = back + call('ZREM', key, unpack(members))
    first = till + 1
  end
  return back
end,
reset = function(key) call('DEL', key) end }
