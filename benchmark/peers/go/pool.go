// SPDX-License-Identifier: BSL-1.0

package main

import "time"

// Fork-join without a cut-off: each call starts a goroutine for one half and calls the other half itself.
func fibonacci(n int) int {
	if n < 2 {
		return n
	}
	half := make(chan int, 1)
	go func() { half <- fibonacci(n - 1) }()
	other := fibonacci(n - 2)
	return <-half + other
}

func addPools(to *plan) {
	// The same depths as fork-join of pool_workloads.hpp: fib(23) spawns 46,367 times, fib(27) 317,810 times.
	spawns, n, expected := to.size(317_810, 46_367), to.size(27, 23), to.size(196_418, 28_657)
	to.add(entry{workload: "pool/fork-join", contestant: "goroutines (Go)", items: spawns, threads: 2,
		run: func(int) sample {
			fibonacci(n - 4)
			begin := time.Now()
			found := fibonacci(n)
			result := sample{time: time.Since(begin)}
			if found != expected {
				result.defect = "a wrong Fibonacci number"
			}
			return result
		}})
}
