-- wrk's script. Arguments: what to send (list, update, hot or mixed), the number of pets, and the seed.
local mode, pets, seed

function init(args)
  mode, pets, seed = args[1], tonumber(args[2]), tonumber(args[3])
  math.randomseed(seed)
  if mode == "list" then return end -- a request that never changes is sent without asking this script again

  local head = " HTTP/1.1\r\nHost: " .. wrk.host .. "\r\nAuthorization: " .. wrk.headers["Authorization"] .. "\r\n"
  local list = "GET /v1/inventory" .. head .. "\r\n"
  local typed = head .. "Content-Type: application/json\r\nContent-Length: "
  local sent = seed

  local function update(pet)
    -- Quantities never repeat within a run, so every accepted update is a change.
    sent = sent + 1
    local body = '{"quantity":' .. sent .. "}"
    return "PATCH /v1/inventory/" .. pet .. typed .. #body .. "\r\n\r\n" .. body
  end

  if mode == "update" then
    request = function() return update(math.random(pets)) end
  elseif mode == "hot" then
    request = function() return update(1) end
  elseif mode == "mixed" then
    request = function()
      if math.random(10) == 1 then return update(math.random(pets)) end
      return list
    end
  end
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '\n{"requests":%d,"bytes":%d,"durationUs":%d,"p50Us":%d,"p99Us":%d,"badStatus":%d,"broken":%d}\n',
    summary.requests, summary.bytes, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
