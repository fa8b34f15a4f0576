// A table of numbers that one thread fills, and four workers read a quarter each, so often; with `own`, each fills a
// table of its own.
const { Worker, isMainThread, workerData, parentPort } = require('worker_threads')

const PART = 1 << 19
const THREADS = 4

function fill(table) {
  for (let i = 0; i < table.length; i++) table[i] = i // [filled]
}

function sum(table, turns) { // [read]
  let sum = 0
  for (let turn = 0; turn < turns; turn++) for (let i = 0; i < table.length; i++) sum += table[i]
  return sum
}

function main(how, turns) {
  const table = how === 'own' ? null : new SharedArrayBuffer(8 * PART * THREADS)
  if (table) fill(new Float64Array(table))
  let [left, all] = [THREADS, 0]
  for (let me = 0; me < THREADS; me++) {
    const worker = new Worker(__filename, { workerData: { table, me, turns } })
    worker.on('message', (sum) => {
      all += sum
      // Who sees the variable that says what is to be named?
      if (--left === 0) console.log(all, process.env.NODE_OPTIONS)
    })
  }
}

function work({ table, me, turns }) {
  const mine = table ? new Float64Array(table, 8 * PART * me, PART) : new Float64Array(PART)
  if (!table) fill(mine)
  parentPort.postMessage(sum(mine, turns))
}

if (isMainThread) main(process.argv[2], Number(process.argv[3]))
else work(workerData)
