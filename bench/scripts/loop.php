<?php
// An array that is updated in a loop, and calls.
$h = [];
for ($i = 0; $i < 30000000; $i++) { $k = ($i * 7919) % 5003; $h[$k] = ($h[$k] ?? 0) + $i; }
function fib($n) { return $n < 2 ? $n : fib($n - 1) + fib($n - 2); }
echo array_sum($h), " ", fib(31), "\n";
