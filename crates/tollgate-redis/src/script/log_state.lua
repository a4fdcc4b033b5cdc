-- A log is a sorted set: a member for each unit, 'id:number', whose score is the unit's time.
-- Its time never goes back behind the newest unit.
local function last(key) return num(call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]) end
