// Calls, objects that are sorted, JSON.
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
const a = [];
for (let i = 0; i < 400000; i++) a.push({ k: (i * 7919) % 100003, s: "x" + i });
a.sort((p, q) => p.k - q.k);
let s = 0;
for (let r = 0; r < 20; r++) for (const o of a) s += o.s.length * o.k;
console.log(fib(35), s, JSON.stringify(JSON.parse(JSON.stringify(a))).length);
