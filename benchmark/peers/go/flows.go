// SPDX-License-Identifier: BSL-1.0

package main

import (
	"fmt"
	"sync"
	"time"
)

// Each pair of goroutines sends numbers to and fro through two channels without a buffer.
func roundTrips(pairs, trips int) sample {
	took := func(each int) sample {
		replies := make(chan int, pairs) // the number of right ones, for each pair
		begin := time.Now()
		for i := 0; i < pairs; i++ {
			there, back := make(chan int), make(chan int)
			go func() {
				right := 0
				for i := 1; i <= each; i++ {
					there <- i
					if <-back == i {
						right++
					}
				}
				close(there)
				replies <- right
			}()
			go func() {
				for i := range there {
					back <- i
				}
			}()
		}
		done := 0
		for i := 0; i < pairs; i++ {
			done += <-replies
		}
		return finished(time.Since(begin), done, each*pairs)
	}
	took(trips/pairs/4 + 1)
	result := took(trips / pairs)
	if pairs == 1 {
		result.figures["half"] = float64(result.time.Nanoseconds()) / float64(trips) / 2
	}
	return result
}

// A goroutine forks and joins `branches` others, group after group.
func fanOut(branches, groups int) sample {
	counts := make([]int, branches)
	run := func(groups int) time.Duration {
		begin := time.Now()
		for g := 0; g < groups; g++ {
			var all sync.WaitGroup
			all.Add(branches)
			for b := 0; b < branches; b++ {
				go func(b int) {
					counts[b]++
					all.Done()
				}(b)
			}
			all.Wait()
		}
		return time.Since(begin)
	}
	run(groups / 4)
	clear(counts)
	took := run(groups)
	return finished(took, sum(counts), branches*groups)
}

func sum(values []int) int {
	total := 0
	for _, each := range values {
		total += each
	}
	return total
}

func addFlows(to *plan) {
	for _, pairs := range []int{1, 64} {
		name, trips := "flows/round trip pool", to.size(200_000, 50_000)
		if pairs != 1 {
			name, trips = name+" x64", to.size(640_000, 128_000)
		}
		to.add(entry{workload: name, contestant: "channels (Go)", items: trips, threads: 2, probesLine: true,
			run: func(trips int) sample { return roundTrips(pairs, trips) }})
	}
	for _, branches := range []int{8, 64, 1_000} {
		to.add(entry{workload: fmt.Sprintf("flows/fan-out %d", branches), contestant: "goroutines (Go)",
			items: to.size(200_000_000, 40_000_000) / (200 * branches), threads: 2,
			run: func(groups int) sample { return fanOut(branches, groups) }})
	}
}
