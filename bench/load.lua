-- wrk's script. Arguments: what to send (list, update, hot or mixed), the number of pets, the seed, and how many requests
-- a second; without the last, as many as are answered.
local mode, pets, seed, rate

-- Each connection asks how many milliseconds to wait before its next request; one that is late does not wait.
function pace(rate)
  local ffi = require("ffi")
  ffi.cdef("struct timespec { long s; long ns; }; int clock_gettime(int clock, struct timespec *now);")
  local CLOCK_MONOTONIC, time = 1, ffi.new("struct timespec[1]")
  local function now()
    ffi.C.clock_gettime(CLOCK_MONOTONIC, time)
    return tonumber(time[0].s) * 1000 + tonumber(time[0].ns) / 1e6
  end
  local started, asked = now(), 0
  return function()
    asked = asked + 1
    return math.max(0, math.floor(started + asked * 1000 / rate - now()))
  end
end

function init(args)
  mode, pets, seed, rate = args[1], tonumber(args[2]), tonumber(args[3]), tonumber(args[4])
  math.randomseed(seed)
  if rate then delay = pace(rate) end
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
