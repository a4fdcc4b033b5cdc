-- Entries with their numbers, from a number on.
local order, entries = unpack(KEYS)
local after, most = unpack(ARGV)
local found = redis.call('ZRANGEBYSCORE', order, after, '+inf', 'WITHSCORES', 'LIMIT', 0, most)
for i = 1, #found, 2 do
  found[i] = redis.call('HGET', entries, found[i])
end
return found
