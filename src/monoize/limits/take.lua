-- ARGV: now or '', requests per minute or '', tokens per minute or '', tokens needed.
-- Answers with the fields of Tally: admitted, now, slot, requests, tokens, their resets, their waits.
local now = moment(ARGV[1])
local limits = {requests = tonumber(ARGV[2]), tokens = tonumber(ARGV[3])}
local needed = {requests = 1, tokens = tonumber(ARGV[4])}

local slots, gone = {}, {}
local used = {requests = 0, tokens = 0}
local youngest = {requests = now - WINDOW, tokens = now - WINDOW}
local fields = redis.call('HGETALL', KEYS[1])
for i = 1, #fields, 2 do
  local slot = parsed(fields[i + 1])
  if math.abs(now - slot.at) < WINDOW then
    slots[#slots + 1] = slot
    used.requests = used.requests + slot.requests
    used.tokens = used.tokens + slot.tokens
    if slot.requests > 0 and slot.at > youngest.requests then
      youngest.requests = slot.at
    end
    if slot.tokens > 0 and slot.at > youngest.tokens then
      youngest.tokens = slot.at
    end
  else
    gone[#gone + 1] = fields[i]
  end
end
if #gone > 0 then
  redis.call('HDEL', KEYS[1], unpack(gone))
end

local function wait(measure)
  local excess = limits[measure] and used[measure] + needed[measure] - limits[measure] or 0
  if excess <= 0 then
    return 0
  end
  table.sort(slots, function(a, b) return a.at < b.at end)
  for _, slot in ipairs(slots) do
    excess = excess - slot[measure]
    if excess <= 0 then
      return slot.at + WINDOW - now
    end
  end
  return WINDOW
end

local requests_wait, tokens_wait = wait('requests'), wait('tokens')
local admitted = requests_wait == 0 and tokens_wait == 0
if admitted then
  local counted = limits.tokens and needed.tokens or 0  -- nobody counts tokens that nobody limits
  local slot = add(now, 1, counted)
  used.requests, used.tokens = used.requests + 1, used.tokens + counted
  youngest.requests = math.max(youngest.requests, slot.at)
  if slot.tokens > 0 then
    youngest.tokens = math.max(youngest.tokens, slot.at)
  end
end

return {
  admitted and 1 or 0, now, math.floor(now / SLOT), used.requests, used.tokens,
  youngest.requests + WINDOW - now, youngest.tokens + WINDOW - now,
  requests_wait, tokens_wait,
}
