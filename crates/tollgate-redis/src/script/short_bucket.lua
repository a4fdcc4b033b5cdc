    -- A bucket without marks, and without the fraction of another rate.
    local p, q, capacity = x, y, z
    local v = call('GET', key)
    local T, f, was = v and num(v), 0, nil
    if v and not T then
      T, f, was = v:match('^(%d+) (%d+) (%d+)$')
      T, f = num(T), num(f)
      if f ~= 0 and num(was) ~= p then break end
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
    call('SET', key, value, 'PX', ceil((r1 + 1 - now) / 1000) + slack)
