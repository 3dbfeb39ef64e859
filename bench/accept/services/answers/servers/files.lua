-- For wrk: each request is for another of the 512 files in turn.
local FILES = 512
local at = 0
request = function()
  at = at % FILES + 1
  return wrk.format(nil, "/" .. at)
end
