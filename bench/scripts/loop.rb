# A hash that is updated in a loop, arrays of arrays, calls.
h = Hash.new(0)
5_000_000.times { |i| h[(i * 7919) % 5003] += i }
a = (0...600_000).map { |i| (i * 31) % 1009 }
def fib(n) = n < 2 ? n : fib(n - 1) + fib(n - 2)
puts h.values.sum, a.sort.each_slice(3).map(&:sum).max, fib(29)
