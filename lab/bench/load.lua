-- wrk's script. Arguments: what to send (list, update or hot), the number of pets, the quantity before the first, and
-- how many requests a second; without the last, as many as are answered. It prints a LoadResult of load.ts.
local mode, pets, sent, rate

-- Each connection asks how many milliseconds to wait before its next request; one that is late does not wait.
local function pace()
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
  mode, pets, sent, rate = args[1], tonumber(args[2]), tonumber(args[3]), tonumber(args[4])
  math.randomseed(sent)
  if rate then delay = pace() end
  if mode == "list" then return end -- a request that never changes is sent without asking this script again

  local head = " HTTP/1.1\r\nHost: " .. wrk.host .. "\r\nAuthorization: " .. wrk.headers["Authorization"] .. "\r\n"
  local typed = head .. "Content-Type: application/json\r\nContent-Length: "

  function request()
    sent = sent + 1
    local body = '{"quantity":' .. sent .. "}"
    local pet = mode == "hot" and 1 or math.random(pets)
    return "PATCH /v1/inventory/" .. pet .. typed .. #body .. "\r\n\r\n" .. body
  end
end

function done(summary)
  local errors = summary.errors
  io.write(string.format(
    '\n{"requests":%d,"seconds":%f,"failures":%d}\n',
    summary.requests, summary.duration / 1e6,
    errors.status + errors.connect + errors.read + errors.write + errors.timeout))
end
