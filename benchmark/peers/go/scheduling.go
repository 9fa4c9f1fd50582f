// SPDX-License-Identifier: BSL-1.0

// The lateness of timers and wake-ups beside goroutines that block. The counterpart of support/lateness_workloads.hpp.
package main

import (
	"runtime"
	"sort"
	"sync"
	"sync/atomic"
	"time"
)

const (
	timerLoops       = 32
	waitingFlows     = 64
	disturbedWorkers = 4
	beat             = 3 * time.Millisecond
	blocked          = 100 * time.Millisecond
)

func milliseconds(each time.Duration) float64 { return float64(each.Nanoseconds()) * 1e-6 }

// The 99th percentile as the figure, the median and the maximum as notes.
func lateness(late []float64) sample {
	if len(late) == 0 {
		return sample{defect: "no timer came due"}
	}
	sort.Float64s(late)
	count := len(late)
	return sample{figures: map[string]float64{
		"value": late[count-1-count/100], "median": late[count/2], "max": late[count-1]}}
}

// Goroutines that wait for a timer of 3 ms again and again. `disturb` runs beside them until `stop` is true.
func timers(length time.Duration, disturb func(stop *atomic.Bool)) sample {
	var stop atomic.Bool
	var ended sync.WaitGroup
	logs := make([][]float64, timerLoops)
	ended.Add(timerLoops + 1)
	for i := range logs {
		go func(log *[]float64) {
			defer ended.Done()
			*log = make([]float64, 0, length/time.Millisecond/2)
			for !stop.Load() {
				armed := time.Now()
				time.Sleep(beat)
				*log = append(*log, milliseconds(time.Since(armed)-beat))
			}
		}(&logs[i])
	}
	go func() {
		defer ended.Done()
		disturb(&stop)
	}()
	time.Sleep(length)
	stop.Store(true)
	ended.Wait()
	var late []float64
	for _, each := range logs {
		late = append(late, each...)
	}
	return lateness(late)
}

// One goroutine at a time that blocks.
func blockingTasks(stop *atomic.Bool) {
	for !stop.Load() {
		done := make(chan struct{})
		go func() {
			blockThread(blocked)
			close(done)
		}()
		<-done
	}
}

// Wake-ups of 64 goroutines, while three others are inside a call of 300 ms, or in calls of 100 ms again and again.
func completions(rounds int, again bool) sample {
	var late []float64
	for r := 0; r < rounds; r++ {
		var waiting, begun, ended sync.WaitGroup
		var stop atomic.Bool
		waits := make([]chan time.Time, waitingFlows)
		found := make([]float64, waitingFlows)
		waiting.Add(waitingFlows)
		ended.Add(waitingFlows + disturbedWorkers - 1)
		for i := range waits {
			waits[i] = make(chan time.Time, 1)
			go func(i int) {
				defer ended.Done()
				waiting.Done()
				found[i] = milliseconds(time.Since(<-waits[i]))
			}(i)
		}
		waiting.Wait()
		begun.Add(disturbedWorkers - 1)
		for i := 1; i < disturbedWorkers; i++ {
			go func() {
				defer ended.Done()
				begun.Done()
				if !again {
					blockThread(3 * blocked)
					return
				}
				for !stop.Load() {
					blockThread(blocked)
					runtime.Gosched()
				}
			}()
		}
		begun.Wait()
		time.Sleep(3 * blocked / 10)
		for _, each := range waits {
			if again {
				time.Sleep(beat) // in 192 ms, so that each of these goroutines is resumed once or twice
			}
			each <- time.Now()
		}
		stop.Store(true)
		ended.Wait()
		late = append(late, found...)
	}
	return lateness(late)
}

func addScheduling(to *plan) {
	cases := []struct {
		name    string
		disturb func(stop *atomic.Bool)
	}{
		{"nothing", func(*atomic.Bool) {}},
		{"task", blockingTasks},
		{"step", func(stop *atomic.Bool) {
			for !stop.Load() {
				blockThread(blocked)
			}
		}},
	}
	for _, each := range cases {
		disturb := each.disturb
		to.add(entry{workload: "disturbed/" + each.name, contestant: "goroutines (Go)", items: to.size(3_000, 1_500),
			threads: disturbedWorkers, onlyWhole: true,
			run: func(items int) sample { return timers(time.Duration(items)*time.Millisecond, disturb) }})
	}
	for _, again := range []bool{false, true} {
		name := "disturbed/completions"
		if again {
			name += " step"
		}
		to.add(entry{workload: name, contestant: "goroutines (Go)", items: to.size(8, 3), threads: disturbedWorkers,
			onlyWhole: true, run: func(rounds int) sample { return completions(rounds, again) }})
	}
}
