-- The sliding window of window.py, for all replicas: what stands before the script of each operation.
-- KEYS[1] is a hash: the number of a second -> "<its youngest millisecond> <requests> <tokens>".
local WINDOW, SLOT = 60000, 1000

-- The server's clock, so that all replicas agree; tests bring their own.
local function moment(given)
  if given ~= '' then
    return tonumber(given)
  end
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function number_of(now)
  return string.format('%.0f', math.floor(now / SLOT))
end

local function parsed(text)
  local at, requests, tokens = string.match(text, '^(%d+) (%d+) (%d+)$')
  return {at = tonumber(at), requests = tonumber(requests), tokens = tonumber(tokens)}
end

local function write(number, slot)
  if slot.requests == 0 and slot.tokens == 0 then
    redis.call('HDEL', KEYS[1], number)
  else
    local text = string.format('%.0f %.0f %.0f', slot.at, slot.requests, slot.tokens)
    redis.call('HSET', KEYS[1], number, text)
    redis.call('PEXPIRE', KEYS[1], WINDOW + SLOT)  -- nothing stays behind
  end
end

local function add(now, requests, tokens)
  local number = number_of(now)
  local text = redis.call('HGET', KEYS[1], number)
  local slot = text and parsed(text) or {at = now, requests = 0, tokens = 0}
  slot.at = math.max(slot.at, now)
  slot.requests = slot.requests + requests
  slot.tokens = slot.tokens + tokens
  write(number, slot)
  return slot
end
