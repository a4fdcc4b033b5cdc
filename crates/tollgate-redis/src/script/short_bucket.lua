    -- A bucket that was not reset lately, of this rate. bucket_state.lua says what its value is.
    local p, q, capacity = x, y, z
    local v = call('GET', key)
    local T, f, m, h, rest = v and num(v), 0
    if v and not T then
      local was, marks
      T, f, was, marks = v:match('^(%d+) (%d+) (%d+)(.*)$')
      T, f = num(T), num(f)
      if num(was) ~= p then break end
      if marks ~= '' then
        -- A reset's number goes into the receipt, so it must be 0. The rest stays unread.
        m, h, rest = marks:match('^ (%d+) (%d+)( %d 0.*)$')
        if not m then break end
        h = num(h)
      end
    end
    if not T or T < now then T, f = now, 0 end
    local debt, need = (T - now) * p + f, cost * q
    local room = capacity * q - debt
    left, clear = room > 0 and floor(room / q) or 0, ceil(debt / p)
    if cost > capacity then verdict = -1 break end
    if cost == 0 then verdict = 1 break end
    if need > room then verdict, wait = 0, ceil((need - room) / p) break end
    verdict, left, clear = 1, floor((room - need) / q), ceil((debt + need) / p)
    r1, r2 = T + floor((f + need) / p), (f + need) % p
    local value = r2 > 0 and fmt('%.0f %.0f %.0f', r1, r2, p) or r1
    local ends = r1 + 1
    if m and h > now then
      ends = max(h, ends)
      value = fmt('%.0f %.0f %.0f %s %.0f%s', r1, r2, p, m, ends, rest)
    end
    call('SET', key, value, 'PX', ceil((ends - now) / 1000) + slack)
