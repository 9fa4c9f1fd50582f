// SPDX-License-Identifier: BSL-1.0

// Channels of 64-bit numbers. The counterpart of support/queue_workloads.hpp: every element that goes in must come out
// once. Counts and sums are compared after each sample.
package main

import (
	"fmt"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"
	"time"
)

const capacity = 1024

func trySend(to chan<- uint64, value uint64) bool {
	select {
	case to <- value:
		return true
	default:
		return false
	}
}

func tryReceive(from <-chan uint64) (uint64, bool) {
	select {
	case value := <-from:
		return value, true
	default:
		return 0, false
	}
}

// Back-off after an attempt on an empty or full channel, as the other contestants have it: goroutines stand for threads.
type patience struct{ misses int }

func (p *patience) lost() {
	p.misses++
	if p.misses%64 == 0 {
		runtime.Gosched()
	} else {
		pause()
	}
}

// Count and sum of the elements that went in, or came out.
type ledger struct{ count, sum uint64 }

func (l *ledger) note(value uint64) {
	l.count++
	l.sum += value
}

func (l *ledger) add(other ledger) {
	l.count += other.count
	l.sum += other.sum
}

func balanced(took time.Duration, in, out ledger) sample {
	result := sample{time: took, figures: map[string]float64{}}
	if in.count != out.count {
		result.defect = fmt.Sprintf("%d elements in, %d out", in.count, out.count)
	} else if in != out {
		result.defect = fmt.Sprintf("elements changed: %d in and out, sums differ", in.count)
	}
	return result
}

// A phase of traffic: each producer sends its share, consumers take elements until none are left. Returns the duration
// and what went in and out.
func phase(queue chan uint64, producers, consumers, items int, waits bool) (time.Duration, ledger, ledger) {
	share := items / producers
	var producing atomic.Int64
	producing.Store(int64(producers))
	produce := func(i int) (sent ledger) {
		var full patience
		first := uint64(i*share + 1)
		for next := first; next < first+uint64(share); next++ {
			if waits {
				queue <- next
			} else {
				for !trySend(queue, next) {
					full.lost()
				}
			}
			sent.note(next)
		}
		producing.Add(-1)
		return sent
	}
	consume := func(i int) (got ledger) {
		if waits {
			mine := share * producers / consumers
			if i < share*producers%consumers {
				mine++
			}
			for ; mine > 0; mine-- {
				got.note(<-queue)
			}
			return got
		}
		var empty patience
		for {
			lastLook := producing.Load() == 0
			for value, ok := tryReceive(queue); ok; value, ok = tryReceive(queue) {
				got.note(value)
			}
			if lastLook {
				return got
			}
			empty.lost()
		}
	}

	var in, out ledger
	var mutex sync.Mutex
	var ready, ended sync.WaitGroup
	start := make(chan struct{})
	ready.Add(producers + consumers)
	ended.Add(producers + consumers)
	run := func(part func(int) ledger, i int, total *ledger) {
		defer ended.Done()
		ready.Done()
		<-start
		moved := part(i)
		mutex.Lock()
		total.add(moved)
		mutex.Unlock()
	}
	for i := 0; i < producers; i++ {
		go run(produce, i, &in)
	}
	for i := 0; i < consumers; i++ {
		go run(consume, i, &out)
	}
	ready.Wait()
	begin := time.Now()
	close(start)
	ended.Wait()
	return time.Since(begin), in, out
}

// Traffic of `producers` and `consumers`. A quarter as much comes first, as a warm-up.
func traffic(producers, consumers, items int, waits bool) sample {
	queue := make(chan uint64, capacity)
	_, in, out := phase(queue, producers, consumers, items/4, waits)
	took, moreIn, moreOut := phase(queue, producers, consumers, items, waits)
	in.add(moreIn)
	out.add(moreOut)
	for value, ok := tryReceive(queue); ok; value, ok = tryReceive(queue) {
		out.note(value)
	}
	return balanced(took, in, out)
}

// One goroutine puts an element in and takes one out, again and again.
func pair(items int) sample {
	queue := make(chan uint64, capacity)
	var in, out ledger
	pairs := func(count int) time.Duration {
		begin := time.Now()
		for i := uint64(1); i <= uint64(count); i++ {
			if trySend(queue, i) {
				in.note(i)
			}
			if value, ok := tryReceive(queue); ok {
				out.note(value)
			}
		}
		return time.Since(begin)
	}
	pairs(items / 4)
	return balanced(pairs(items), in, out)
}

// One goroutine polls an empty channel.
func empty(items int) sample {
	queue := make(chan uint64, capacity)
	found := 0
	begin := time.Now()
	for i := 0; i < items; i++ {
		if _, ok := tryReceive(queue); ok {
			found++
		}
	}
	return finished(time.Since(begin), items-found, items)
}

// Two goroutines and two channels: an element goes there and back, in calls that do not wait.
func roundTrip(items int) sample {
	there, back := make(chan uint64, capacity), make(chan uint64, capacity)
	receive := func(from <-chan uint64) uint64 {
		for {
			if value, ok := tryReceive(from); ok {
				return value
			}
			if len(usable) < 2 {
				runtime.Gosched()
			}
		}
	}
	go func() {
		for i := 0; i < items; i++ {
			trySend(back, receive(there))
		}
	}()
	trips := make([]float64, items)
	right := 0
	last := time.Now()
	for i := range trips {
		trySend(there, uint64(i))
		if receive(back) == uint64(i) {
			right++
		}
		now := time.Now()
		trips[i] = float64(now.Sub(last).Nanoseconds())
		last = now
	}
	result := finished(0, right, items)
	sort.Float64s(trips)
	result.figures["value"] = trips[items/2]
	for name, outside := range map[string]int{"p90": 10, "p99": 100, "p99.9": 1_000} {
		result.figures[name] = trips[items-1-items/outside]
	}
	return result
}

func addQueues(to *plan) {
	const name = "channel (Go)"
	elements := to.size(500_000, 200_000)
	add := func(workload string, threads, items int, probesLine bool, run func(items int) sample) {
		to.add(entry{workload: "bounded/" + workload, contestant: name, items: items,
			threads: min(threads, len(usable)), probesLine: probesLine, run: run})
	}
	addTraffic := func(producers, consumers int, waits bool) {
		label := fmt.Sprintf("%d:%d", producers, consumers)
		if waits {
			label = "waiting " + label
		}
		add(label, producers+consumers, elements, true,
			func(items int) sample { return traffic(producers, consumers, items, waits) })
	}
	for _, crew := range [][2]int{{1, 1}, {2, 2}, {1, 3}, {3, 1}, {4, 4}} {
		addTraffic(crew[0], crew[1], false)
	}
	addTraffic(1, 1, true)
	addTraffic(4, 4, true)
	add("pair", 1, elements, false, pair)
	add("empty", 1, 2*elements, false, empty)
	add("round trip", 2, to.size(10_000, 4_000), true, roundTrip)
}
