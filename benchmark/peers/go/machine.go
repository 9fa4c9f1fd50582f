// SPDX-License-Identifier: BSL-1.0

package main

import (
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// A set of processors as the system calls have it.
type processorSet [128]uint64

// The processors that this process may use, as numbers of the system.
var usable = func() []int {
	var set processorSet
	var found []int
	syscall.RawSyscall(syscall.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(set), uintptr(unsafe.Pointer(&set)))
	for i := 0; i < 64*len(set); i++ {
		if set[i/64]&(1<<(i%64)) != 0 {
			found = append(found, i)
		}
	}
	return found
}()

// Pins the calling goroutine and its thread to the n-th of these processors. The thread ends with the goroutine. A
// failure leaves it unpinned: slower, not wrong.
func pinToProcessor(n int) {
	runtime.LockOSThread()
	var set processorSet
	at := usable[n%len(usable)]
	set[at/64] = 1 << (at % 64)
	syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, 0, unsafe.Sizeof(set), uintptr(unsafe.Pointer(&set)))
}

// Round trip of a cache line from one core to another and back, in nanoseconds; 0 on a single processor.
func lineRoundTrip() float64 {
	if len(usable) < 2 {
		return 0
	}
	const rallies, trips = 15, 100
	var ball struct {
		_     [128]byte
		value atomic.Int64
		_     [128]byte
	}
	var times []float64
	var ended sync.WaitGroup
	ended.Add(2)
	for side := 0; side < 2; side++ {
		go func(side int) {
			defer ended.Done()
			pinToProcessor(side)
			for rally := 0; rally < rallies; rally++ {
				start := time.Now()
				for i := 0; i < trips; i++ {
					mine := int64(2*(rally*trips+i) + side)
					for ball.value.Load() != mine {
					}
					ball.value.Store(mine + 1)
				}
				if side == 0 {
					times = append(times, float64(time.Since(start).Nanoseconds())/trips)
				}
			}
		}(side)
	}
	ended.Wait()
	sort.Float64s(times)
	return times[rallies/2] // the median: an interrupt must not pass for a distant core
}

// Resident memory of this process.
func residentBytes() int {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, _ := strconv.Atoi(strings.Fields(string(statm))[1])
	return pages * os.Getpagesize()
}

// Blocks the thread in a system call, as a call of the operating system that takes time does. time.Sleep() blocks only
// the goroutine.
func blockThread(duration time.Duration) {
	for left := syscall.NsecToTimespec(duration.Nanoseconds()); syscall.Nanosleep(&left, &left) == syscall.EINTR; {
	}
}
