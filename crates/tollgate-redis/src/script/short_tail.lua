  until true
  -- Of each key the time, verdict, remaining, wait, reset, two numbers for the receipt.
  answers[k] = pack('<ddddddd', now, verdict, left, wait, clear, r1, r2)
end
return table.concat(answers)
