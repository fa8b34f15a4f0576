// A table of integers that one thread fills, and four threads read a quarter each, so often; with `own`, each fills a
// table of its own. Collections as often as it is told.
package main

import (
    "fmt"
    "os"
    "runtime"
    "strconv"
    "sync"
)

const part, threads = 1 << 19, 4

func allocate(length int) []int64 {
    return make([]int64, length) // [allocated]
}

func fill(table []int64) {
    for i := range table {
        table[i] = int64(i)
    }
}

func sum(table []int64, turns int) (sum int64) {
    for turn := 0; turn < turns; turn++ {
        for i := range table {
            sum += table[i]
        }
    }
    return sum
}

func main() {
    runtime.LockOSThread()
    own := os.Args[1] == "own"
    turns, _ := strconv.Atoi(os.Args[2])
    collections, _ := strconv.Atoi(os.Args[3])
    var table []int64
    if !own {
        table = allocate(part * threads)
        fill(table)
    }
    sums := make([]int64, threads)
    var all sync.WaitGroup
    for k := 0; k < threads; k++ {
        all.Add(1)
        go func(k int) {
            defer all.Done()
            runtime.LockOSThread()
            mine := []int64(nil)
            if own {
                mine = allocate(part)
                fill(mine)
            } else {
                mine = table[k*part : (k+1)*part]
            }
            sums[k] = sum(mine, turns)
        }(k)
    }
    all.Wait()
    for k := 0; k < collections; k++ {
        runtime.GC()
    }
    fmt.Println(sums[0] + sums[1] + sums[2] + sums[3])
}
