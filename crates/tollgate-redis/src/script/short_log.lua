    -- A log.
    local width, limit = x, y
    local newest = num(call('ZRANGE', key, '-1', '-1', 'WITHSCORES')[2])
    local from, units = newest and max(now, newest) or now, newest and call('ZCARD', key) or 0
    -- Whether it is admitted even if no unit has left the window.
    local n, fits = 0, cost > 0 and units + cost <= limit
    if newest and fits then
      n = units - call('ZREMRANGEBYSCORE', key, '-inf', from - width)
    elseif newest then
      -- A refusal removes nothing: for a clock that goes back, those units count again.
      n = call('ZCOUNT', key, from - width + 1, '+inf')
    end
    left, clear = max(0, limit - n), n > 0 and newest + width - now or 0
    if cost > limit then verdict = -1 break end
    if cost == 0 then verdict = 1 break end
    if cost > left then
      local skip = n + cost - limit - 1
      local goes = call('ZRANGEBYSCORE', key, from - width + 1, '+inf', 'WITHSCORES', 'LIMIT', skip, 1)[2]
      verdict, wait = 0, num(goes) + width - now
      break
    end
    if newest and not fits then call('ZREMRANGEBYSCORE', key, '-inf', from - width) end
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
