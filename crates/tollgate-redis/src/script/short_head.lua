-- Plain checks of one limit in the fewest steps, each for itself. The last argument is a row of
-- doubles, which costs less than an argument for each: the time, or 0 for the server's; slack in ms;
-- the limit's three numbers; the cost of each key's request. For a log, the call's id is before it.
-- redis.call sends all digits of a number; `..` and tostring print 14 of them.
local floor, ceil, max, fmt, num, call = math.floor, math.ceil, math.max, string.format, tonumber, redis.call
local pack, unpack_row, row, answers = struct.pack, struct.unpack, ARGV[#ARGV], {}
local now, slack, x, y, z, at = unpack_row('<ddddd', row)
if now == 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
for k = 1, #KEYS do
  local key, cost = KEYS[k]
  cost, at = unpack_row('<d', row, at)
  -- The verdict -2 leaves the request to decide.lua.
  local verdict, left, wait, clear, r1, r2 = -2, 0, 0, 0, 0, 0
  -- A limit's part breaks out of here once it has decided: a function would cost more.
  repeat
