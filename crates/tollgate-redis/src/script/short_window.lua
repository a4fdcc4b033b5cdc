    -- A fixed window or a sliding counter without marks: `slides` says which.
    local width, limit, unit = x, y, z
    local units, current = width / unit, floor(now / width)
    local v = call('GET', key)
    local i, n, b = current, 0, 0
    if v then
      local j, count, before, marks = v:match('^(%d+) (%d+) ?(%d*) ?(%d*)$')
      if marks ~= '' and marks ~= '0' then break end
      j = num(j)
      if j >= current then
        -- A clock that goes back stays in the key's latest window.
        i, n, b = j, num(count), num(before) or 0
      elseif slides and j == current - 1 then
        b = num(count)
      end
    end
    local passed = max(0, floor((now - i * width) / unit))
    local ends = (i + (slides and 2 or 1)) * width
    left = max(0, limit - n - ceil(b * (units - passed) / units))
    -- What of the key is left in the end: this window's count, or else the one before.
    clear = n > 0 and ends - now or b > 0 and (i + 1) * width - now or 0
    if cost > limit then verdict = -1 break end
    if cost == 0 then verdict = 1 break end
    if cost <= left then
      verdict, left, clear, r1 = 1, left - cost, ends - now, i
      local value = b > 0 and fmt('%.0f %.0f %.0f 0', i, n + cost, b) or fmt('%.0f %.0f', i, n + cost)
      call('SET', key, value, 'PX', ceil((ends - now) / 1000) + slack)
      break
    end
    verdict = 0
    if slides then
      -- When `before` requests of the window before leave so much room, in units of this window.
      local function from(before, room)
        if room < 0 then return nil elseif before <= room then return 0 end
        local overlap = floor(room * units / before)
        return overlap > 0 and units - overlap or nil
      end
      local here = from(b, limit - n - cost)
      local there = here or from(n, limit - cost) or units
      wait = (here and i or i + 1) * width + there * unit - now
    else
      wait = (i + 1) * width - now
    end
