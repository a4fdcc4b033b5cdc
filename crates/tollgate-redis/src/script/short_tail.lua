  until true
  -- Returns the time; for each key verdict, remaining, wait, reset, two numbers for the receipt.
  if k == 1 then
    -- A table that is made at its size costs less than one that grows.
    out = { now, verdict, left, wait, clear, r1, r2 }
  else
    local at = 6 * k - 4
    out[at], out[at + 1], out[at + 2], out[at + 3], out[at + 4], out[at + 5] = verdict, left, wait, clear, r1, r2
  end
end
return out
