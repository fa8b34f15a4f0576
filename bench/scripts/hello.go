package main

import (
    "fmt"
    "sort"
    "strings"
)

func main() {
    words := []string{"b", "a"}
    sort.Strings(words)
    fmt.Println(strings.Join(words, ","))
}
