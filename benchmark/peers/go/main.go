// SPDX-License-Identifier: BSL-1.0

// Peers in Go, for the workloads of queue.cpp, pool.cpp, steps.cpp and flows.cpp. The results have the format of Google
// Benchmark.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// The result of one repetition of one contestant.
type sample struct {
	time    time.Duration      // of all items together, in workloads that measure a time
	figures map[string]float64 // "value": the result, in workloads that measure no time; others: notes
	defect  string             // the error of the contestant; empty: none
}

// The time, and a defect unless all work was done.
func finished(took time.Duration, done, expected int) sample {
	result := sample{time: took, figures: map[string]float64{}}
	if done != expected {
		result.defect = fmt.Sprintf("%d of %d were done", done, expected)
	}
	return result
}

// One contestant in one workload.
type entry struct {
	workload, contestant string
	items                int  // the argument of run(), and the divisor of its time
	threads              int  // GOMAXPROCS
	probesLine           bool // measures the round trip of a cache line before and after each sample
	onlyWhole            bool // runs only with --whole, or when a filter chooses it
	onlyOnce             bool // takes one sample in a process: a second one would use memory that the first has freed
	run                  func(items int) sample
}

func (e entry) name() string { return e.workload + "/" + e.contestant }

type plan struct {
	quick   bool
	entries []entry
}

func (p *plan) size(full, whenQuick int) int {
	if p.quick {
		return whenQuick
	}
	return full
}

func (p *plan) add(e entry) { p.entries = append(p.entries, e) }

// Takes a sample and returns its line of the results.
func takeSample(e entry, repetition int) map[string]any {
	line := map[string]any{
		"name":       fmt.Sprintf("%s/%d/iterations:%d/manual_time", e.name(), repetition, e.items),
		"run_type":   "iteration",
		"iterations": e.items,
		"time_unit":  "ns",
	}
	if e.probesLine {
		line["line_before"] = lineRoundTrip()
	}
	runtime.GC() // the garbage of the sample before
	runtime.GOMAXPROCS(e.threads)
	result := e.run(e.items)
	runtime.GOMAXPROCS(runtime.NumCPU())
	line["real_time"] = float64(result.time.Nanoseconds()) / float64(e.items)
	for name, value := range result.figures {
		line[name] = value
	}
	if e.probesLine {
		line["line_after"] = lineRoundTrip()
	}
	if result.defect != "" {
		line["error_occurred"], line["error_message"] = true, result.defect
	}
	return line
}

func fail(message any) {
	fmt.Fprintln(os.Stderr, "go:", message)
	os.Exit(2)
}

func main() {
	quick := flag.Bool("quick", false, "small sizes, fewer repetitions")
	whole := flag.Bool("whole", false, "also the curves and the scheduling")
	list := flag.Bool("list", false, "print the names and run nothing")
	filter := flag.String("filter", "", "only workloads and contestants whose \"workload/contestant\" contains a match")
	repetitions := flag.Int("repetitions", 0, "samples of each contestant in each workload")
	out := flag.String("benchmark_out", "", "write the results to this file")
	flag.Parse()
	chosen, err := regexp.Compile(*filter)
	if err != nil {
		fail("--filter: " + err.Error())
	}
	if flag.NArg() != 0 {
		fail("unknown option " + flag.Arg(0))
	}

	all := plan{quick: *quick}
	addQueues(&all)
	addPools(&all)
	addSteps(&all)
	addFlows(&all)
	addScheduling(&all)
	var entries []entry
	for _, each := range all.entries {
		if chosen.MatchString(each.name()) && (!each.onlyWhole || *whole || *filter != "") {
			entries = append(entries, each)
		}
	}
	if *list {
		for _, each := range entries {
			fmt.Println(each.name())
		}
		return
	}
	if *repetitions <= 0 {
		*repetitions = all.size(9, 5)
	}
	runs := []map[string]any{}
	for repetition := 0; repetition < *repetitions; repetition++ {
		for _, each := range entries {
			if repetition == 0 || !each.onlyOnce {
				runs = append(runs, takeSample(each, repetition))
			}
		}
	}
	context := map[string]string{"version:Go": strings.TrimPrefix(runtime.Version(), "go")}
	text, err := json.MarshalIndent(map[string]any{"context": context, "benchmarks": runs}, "", " ")
	if err != nil {
		fail(err)
	}
	if *out == "" {
		fmt.Println(string(text))
	} else if err := os.WriteFile(*out, append(text, '\n'), 0o666); err != nil {
		fail(err)
	}
}
