// A slice of 32 MiB that main fills before four threads read a quarter each, eight times.
package main

import (
    "fmt"
    "runtime"
    "sync"
)

const quarter = 1 << 20

var (
    prices []int64
    sums   [4]int64
)

//go:noinline
func fill() {
    prices = make([]int64, 4*quarter) // EXPECT allocated
    for at := range prices {
        prices[at] = int64(at % 7) // EXPECT first-touch
    }
}

func add(part int) {
    runtime.LockOSThread()
    own := prices[part*quarter : (part+1)*quarter]
    sum := int64(0)
    for pass := 0; pass < 8; pass++ {
        for _, price := range own {
            sum += price
        }
    }
    sums[part] = sum
}

func main() {
    runtime.GOMAXPROCS(4)
    fill()
    var all sync.WaitGroup
    for part := range sums {
        all.Add(1)
        go func(part int) {
            defer all.Done()
            add(part)
        }(part)
    }
    all.Wait()
    fmt.Println(sums[0] + sums[1] + sums[2] + sums[3])
}
