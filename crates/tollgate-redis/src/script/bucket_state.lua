-- A bucket gains p grains a us, and a token is q grains. Its value is 'T', 'T f p' or
-- 'T f p m h r g' with a tail: the debt ends f/p us after T. Four are marks, which count until h:
-- m: the time of the last refund out of order; r: 1 once a reservation was made; g: changes with
-- each reset, so that no receipt from before it gives anything back. The tail is what
-- bucket_undo.lua knows of the refunds up to m. A charge copies it unread.
local function load(key, p)
  local v = call('GET', key)
  local T = v and num(v)
  if T or not v then return T or nil, 0, 0, 0, 0, 0, '' end
  local t, f, was, m, h, r, g, tail = v:match('^(%d+) (%d+) (%d+) ?(%d*) ?(%d*) ?(%d*) ?(%d*)(.*)$')
  T, f = num(t), num(f)
  if num(was) ~= p then
    -- Another rate's fraction means nothing here: the debt ends up to 1 us later. Nor do its debts.
    if f > 0 then T, f = T + 1, 0 end
    tail = ''
  end
  return T, f, num(m) or 0, num(h) or 0, num(r) or 0, num(g) or 0, tail
end
local function store(key, p, T, f, m, h, r, g, tail)
  if m > 0 or r > 0 or g > 0 then
    h = max(h, T + 1)
    put(key, fmt('%.0f %.0f %.0f %.0f %.0f %.0f %.0f', T, f, p, m, h, r, g) .. tail, h - now)
  else
    put(key, f > 0 and fmt('%.0f %.0f %.0f', T, f, p) or fmt('%.0f', T), T + 1 - now)
  end
end
