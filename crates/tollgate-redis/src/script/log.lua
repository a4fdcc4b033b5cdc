-- Decides for a log. Arguments: width, limit, -, cost; -; the request's id.
rules.l = function(key, width, limit, _, cost, _, id)
  local newest = last(key)
  local now = now
  local from = newest and max(now, newest) or now
  local since = fmt('(%.0f', from - width)
  local n = newest and call('ZCOUNT', key, since, '+inf') or 0
  local left, clear = max(0, limit - n), n > 0 and newest + width - now or 0
  if cost > limit then return -1, left, 0, clear, 0, 0, 0, 0 end
  if cost == 0 then return 1, left, 0, clear, 0, 0, 0, 0 end
  if cost > left then
    local goes = call('ZRANGEBYSCORE', key, since, '+inf', 'WITHSCORES', 'LIMIT', n + cost - limit - 1, 1)[2]
    return 0, left, num(goes) + width - now, clear, 0, 0, 0, 0
  end
  return 1, left - cost, 0, from + width - now, 0, 0, 0, 0, function()
    call('ZREMRANGEBYSCORE', key, '-inf', fmt('%.0f', from - width))
    local score = fmt('%.0f', from)
    -- As many at once as surely fit on Lua's stack.
    for first = 1, cost, 500 do
      local entries = {}
      for unit = first, min(cost, first + 499) do
        entries[#entries + 1] = score
        entries[#entries + 1] = fmt('%s:%.0f', id, unit)
      end
      call('ZADD', key, unpack(entries))
    end
    call('PEXPIRE', key, ceil((from + width - now) / 1000) + slack)
  end
end
