// SPDX-License-Identifier: BSL-1.0

package main

import (
	"runtime"
	"sync"
	"time"
)

const alive = 30_000

// Goroutines one after the other.
func create(count int) sample {
	done := 0
	var end sync.WaitGroup
	begin := time.Now()
	for i := 0; i < count; i++ {
		end.Add(1)
		go func() {
			done++
			end.Done()
		}()
		end.Wait()
	}
	return finished(time.Since(begin), done, count)
}

// `count` goroutines that give way `times` times, 30,000 of them alive at a time. All have the same thread.
func giveWay(count, times int) sample {
	done, resident := 0, 0
	var end sync.WaitGroup
	begin := time.Now()
	for left := count; left > 0; left -= alive {
		batch := min(left, alive)
		end.Add(batch)
		for i := 0; i < batch; i++ {
			go func() {
				for t := 0; t < times; t++ {
					runtime.Gosched()
					done++
				}
				end.Done()
			}()
		}
		if resident == 0 {
			resident = residentBytes()
		}
		end.Wait()
	}
	result := finished(time.Since(begin), done, count*times)
	result.figures["resident MB"] = float64(resident) / 1e6
	return result
}

// Goroutines that wait for an event from outside.
func waiting(count int) sample {
	started := 0
	event := make(chan struct{})
	runtime.GC()
	before := residentBytes()
	for i := 0; i < count; i++ {
		go func() {
			started++
			<-event
		}()
	}
	for turn := 0; started < count && turn < count; turn++ {
		runtime.Gosched()
	}
	used := residentBytes() - before
	close(event)
	result := finished(0, started, count)
	result.figures["value"] = float64(used) / float64(count)
	return result
}

// Timers due within a minute that are all armed at a time and then cancelled, as most timeouts are.
func timersCancelled(count int) sample {
	armed := make([]*time.Timer, count)
	done := 0
	begin := time.Now()
	for i := range armed {
		armed[i] = time.AfterFunc(time.Duration(10_000+i*7919%50_000)*time.Millisecond, func() {})
	}
	runtime.Gosched()
	for _, each := range armed {
		if each.Stop() {
			done++
		}
	}
	return finished(time.Since(begin), done, count)
}

func addSteps(to *plan) {
	add := func(workload string, items int, run func(items int) sample) {
		to.add(entry{workload: workload, contestant: "goroutines (Go)", items: items, threads: 1, run: run})
	}
	add("steps/create", to.size(1_000_000, 200_000), create)
	add("steps/alive", to.size(990_000, 300_000), func(count int) sample { return giveWay(count, 1) })
	add("steps/switch", to.size(9_990_000, 1_980_000), func(count int) sample { return giveWay(alive, count/alive) })
	to.add(entry{workload: "steps/waiting", contestant: "goroutines (Go)", items: 100_000, threads: 1, onlyOnce: true,
		run: waiting})
	to.add(entry{workload: "steps/timers", contestant: "time.AfterFunc (Go)", items: to.size(1_000_000, 200_000),
		threads: 1, run: timersCancelled})
}
