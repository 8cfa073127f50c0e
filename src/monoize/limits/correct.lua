-- ARGV: now or '', the slot of the grant, requests, tokens. Below zero: taken away from that slot, as
-- far as it is still there; above: counted from now on. Answers with now.
local now = moment(ARGV[1])
local number, requests, tokens = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

local text = redis.call('HGET', KEYS[1], number)
if text then
  local slot = parsed(text)
  slot.requests = math.max(0, slot.requests + math.min(0, requests))
  slot.tokens = math.max(0, slot.tokens + math.min(0, tokens))
  write(number, slot)
end
if tokens > 0 then
  add(now, 0, tokens)
end
return now
