-- Plain checks of one limit in the fewest steps, each for itself. ARGV: the time, or '' for the
-- server's; slack in ms; the limit's three numbers; the cost of each key's request; for a log the
-- call's id. redis.call sends all digits of a number; `..` and tostring print 14 of them.
local floor, ceil, max, fmt, num, call = math.floor, math.ceil, math.max, string.format, tonumber, redis.call
local now, slack, x, y, z = num(ARGV[1]), ARGV[2], num(ARGV[3]), num(ARGV[4]), num(ARGV[5])
if not now then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local out
for k = 1, #KEYS do
  local key, cost = KEYS[k], num(ARGV[5 + k])
  -- The verdict -2 leaves the request to decide.lua.
  local verdict, left, wait, clear, r1, r2 = -2, 0, 0, 0, 0, 0
  -- A limit's part breaks out of here once it has decided: a function would cost more.
  repeat
