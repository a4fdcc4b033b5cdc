-- What a shard has to forward to one centre, if this process is the one that forwards it.
-- KEYS: the lock; the set of keys. ARGV: this process; for how many ms it holds the lock; at most
-- how many keys.
-- Returns the time, how many keys wait, since when the first, and whether this process forwards;
-- then for each key its name, b, c, p, q, n and since when it waits.
local call = redis.call
local time = call('TIME')
local now, oldest = time[1] * 1000000 + time[2], call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
local holder = call('GET', KEYS[1])
local mine = not holder or holder == ARGV[1]
local out = { now, call('ZCARD', KEYS[2]), tonumber(oldest) or now, mine and 1 or 0 }
if not mine then return out end
if not holder or call('PTTL', KEYS[1]) < ARGV[2] / 2 then call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
local waiting = call('ZRANGE', KEYS[2], 0, ARGV[3] - 1, 'WITHSCORES')
for n = 1, #waiting, 2 do
  -- It lies in the slot of the set: they share the tag.
  local v = call('HMGET', waiting[n], 'b', 'c', 'p', 'q', 'n')
  if v[1] then
    for _, x in ipairs({ waiting[n], v[1], v[2], v[3], v[4], v[5], waiting[n + 1] }) do out[#out + 1] = x end
  else
    -- It has expired: older than the horizon, and paid back.
    call('ZREM', KEYS[2], waiting[n])
  end
end
return out
