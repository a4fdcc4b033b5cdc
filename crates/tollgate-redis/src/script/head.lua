-- Lua's numbers are doubles. All numbers here are whole and at most 2^53, so they are exact.
-- Times are whole microseconds. %.0f prints all digits; `..` and tostring print 14 of them.
local floor, ceil, max, min, num = math.floor, math.ceil, math.max, math.min, tonumber
local fmt, call, rules = string.format, redis.call, {}
-- ARGV: the verb; the time, or '' for the server's; how many ms a key stays after it is as good as
-- new; how many limits decide a request together.
local verb, now, slack, limits = ARGV[1], num(ARGV[2]), num(ARGV[3]), num(ARGV[4])
if not now then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
-- An answer is a row of doubles: a table of numbers costs more.
local function answer(numbers) return struct.pack('<' .. ('d'):rep(#numbers), unpack(numbers)) end
local function put(key, value, life) call('SET', key, value, 'PX', ceil(life / 1000) + slack) end
