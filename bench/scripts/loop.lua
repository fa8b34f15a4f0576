-- A table that is read and written in a loop, and calls.
local rounds = tonumber(arg[1]) or 1
local t = {}
for i = 1, 5000 do t[i] = i end
local s = 0
for k = 1, 4000 * rounds do
  for i = 1, 5000 do
    s = s + t[i] * (i % 7)
    t[i] = (t[i] + k) % 1000
  end
end
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
print(s, fib(33))
