    -- A log.
    local width, limit = x, y
    local newest, n = num(call('ZRANGE', key, '-1', '-1', 'WITHSCORES')[2]), 0
    local from = newest and max(now, newest) or now
    local looks = cost == 0 or cost > limit
    if newest and looks then
      n = call('ZCOUNT', key, from - width + 1, '+inf')
    elseif newest then
      -- What has left the window goes. Time must not go back behind the newest unit: it stays if the
      -- request is refused, or else this request's unit takes its place.
      call('ZREMRANGEBYSCORE', key, '-inf', from - width)
      n = call('ZCARD', key)
    end
    left, clear = max(0, limit - n), n > 0 and newest + width - now or 0
    if looks then verdict = cost == 0 and 1 or -1 break end
    if cost > left then
      local goes = call('ZRANGE', key, n + cost - limit - 1, n + cost - limit - 1, 'WITHSCORES')[2]
      verdict, wait = 0, num(goes) + width - now
      break
    end
    verdict, left, clear = 1, left - cost, from + width - now
    local id = fmt('%s.%.0f', ARGV[1], k)
    if cost == 1 then
      call('ZADD', key, from, id .. ':1')
    else
      -- As many at once as surely fit on Lua's stack.
      for first = 1, cost, 500 do
        local entries = {}
        for unit = first, math.min(cost, first + 499) do
          entries[#entries + 1] = from
          entries[#entries + 1] = fmt('%s:%.0f', id, unit)
        end
        call('ZADD', key, unpack(entries))
      end
    end
    call('PEXPIRE', key, ceil(clear / 1000) + slack)
