// Judges histories that lab/faults/history.ts wrote: is each of them linearizable, with all pets at once? Porcupine decides.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"hash/maphash"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// line is one line of the file. The first line of a history has its name and the stock before its first operation.
type line struct {
	History string `json:"history"`
	Stock   []item `json:"stock"`

	Process   int    `json:"process"`
	Call      int64  `json:"call"`
	Return    *int64 `json:"return"` // null: the outcome is unknown, and the operation is open to the end
	Operation string `json:"operation"`
	Outcome   string `json:"outcome"`
	Items     []item `json:"items"` // of a list
	PetId     int    `json:"petId"`
	Quantity  int    `json:"quantity"`
	IfMatch   string `json:"ifMatch"` // a tag, or nothing
	Key       string `json:"key"`     // an Idempotency-Key, or nothing
	Tag       string `json:"tag"`     // what the pet had when its update was refused
}

type item struct {
	PetId    int    `json:"petId"`
	Quantity int    `json:"quantity"`
	Status   string `json:"status"`
}

func (i item) tag() string { return fmt.Sprintf("%s-%d", i.Status, i.Quantity) }

// state is what the interface promises to keep: the stock, and the keys of the updates that took place.
type state struct {
	items []item
	taken []string // in ascending order
}

func main() {
	limit := flag.Duration("limit", time.Minute, "for each history")
	flag.Parse()
	histories, err := read(flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	failed := len(histories) == 0
	for n, history := range histories {
		page := fmt.Sprintf("%s.%d.html", flag.Arg(0), n+1)
		failed = !judge(history, *limit, page) || failed
	}
	if failed {
		os.Exit(1)
	}
}

// history is its first line, and then its operations.
type history []line

func read(path string) ([]history, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var histories []history
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, math.MaxInt32)
	for n := 1; lines.Scan(); n++ {
		var read line
		if err := json.Unmarshal(lines.Bytes(), &read); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		switch last := len(histories) - 1; {
		case read.History != "":
			histories = append(histories, history{read})
		case last < 0:
			return nil, fmt.Errorf("line %d: there is no history before it", n)
		default:
			histories[last] = append(histories[last], read)
		}
	}
	return histories, lines.Err()
}

// judge prints the verdict, and writes Porcupine's page of a history that it does not accept.
func judge(history history, limit time.Duration, page string) bool {
	first, lines := history[0], history[1:]
	var end int64
	for _, line := range lines {
		end = max(end, line.Call+1, line.returned(0))
	}
	shown := shownFrom(lines)
	operations := make([]porcupine.Operation, len(lines))
	open := 0
	for n, line := range lines {
		call := line.Call
		if line.Return == nil {
			open++
			// Such an update begins with the first request that may show it: before that, no response depends on it. Otherwise
			// Porcupine would try each subset of the updates that did not take place, which takes minutes. A later beginning only
			// makes the judge stricter. With a key the beginning stays: a repetition shows that the update took place, even after
			// another one has replaced it.
			if line.Key == "" {
				from, isShown := shown[item{PetId: line.PetId, Quantity: line.Quantity}]
				if !isShown {
					from = end
				}
				call = max(call, from)
			}
		}
		operations[n] = porcupine.Operation{ClientId: line.Process, Input: line, Call: call, Return: line.returned(end)}
	}
	model := modelOf(first.Stock)
	started := time.Now()
	result := porcupine.CheckOperationsTimeout(model, operations, limit)
	fmt.Printf("%s %s: %d operations, %d open, %.1f s\n", result, first.History, len(lines), open, time.Since(started).Seconds())
	if result != porcupine.Ok {
		// A second time, because what the page needs takes much longer.
		_, info := porcupine.CheckOperationsVerbose(model, operations, limit)
		if err := porcupine.VisualizePath(model, info, page); err != nil {
			fmt.Println("  not drawn:", err)
		} else {
			fmt.Println("  drawn in", page)
		}
	}
	return result == porcupine.Ok
}

func (l line) returned(open int64) int64 {
	if l.Return == nil {
		return open
	}
	return *l.Return
}

// shownFrom says when the first request began that names a quantity of a pet, other than the update that sets it.
func shownFrom(lines []line) map[item]int64 {
	shown := map[item]int64{}
	note := func(petId int, quantity int, call int64) {
		one := item{PetId: petId, Quantity: quantity}
		if earlier, isThere := shown[one]; !isThere || call < earlier {
			shown[one] = call
		}
	}
	for _, line := range lines {
		for _, item := range line.Items {
			note(item.PetId, item.Quantity, line.Call)
		}
		for _, tag := range []string{line.IfMatch, line.Tag} {
			if quantity, err := strconv.Atoi(tag[strings.LastIndex(tag, "-")+1:]); err == nil {
				note(line.PetId, quantity, line.Call)
			}
		}
	}
	return shown
}

var seed = maphash.MakeSeed()

func modelOf(stock []item) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{items: stock} },
		Step: func(before, input, _ any) (bool, any) { return step(before.(state), input.(line)) },
		Equal: func(one, other any) bool {
			return slices.Equal(one.(state).items, other.(state).items) && slices.Equal(one.(state).taken, other.(state).taken)
		},
		Hash: func(of any) uint64 {
			var hash maphash.Hash
			hash.SetSeed(seed)
			for _, item := range of.(state).items {
				maphash.WriteComparable(&hash, item.Quantity)
			}
			return hash.Sum64()
		},
		DescribeOperation: func(input, _ any) string { return describe(input.(line)) },
		DescribeState: func(of any) string {
			return fmt.Sprintf("%s; keys: %s", texts(of.(state).items), strings.Join(of.(state).taken, " "))
		},
	}
}

// step says whether the outcome can come of an operation in this state, and what the state is then.
func step(before state, operation line) (bool, state) {
	if operation.Operation == "list" {
		return slices.Equal(before.items, operation.Items), before
	}
	at, isThere := slices.BinarySearchFunc(before.items, operation.PetId, func(item item, petId int) int { return item.PetId - petId })
	if !isThere {
		return false, before
	}
	present := before.items[at]
	place, isTaken := slices.BinarySearch(before.taken, operation.Key)
	holds := !isTaken && (operation.IfMatch == "" || operation.IfMatch == present.tag())
	switch operation.Outcome {
	case "replayed":
		return isTaken, before
	case "precondition_failed":
		return !isTaken && !holds && operation.Tag == present.tag(), before
	case "refused": // nothing was written
		return true, before
	case "unknown":
		if !holds {
			return true, before
		}
	case "done":
		if !holds {
			return false, before
		}
	default:
		return false, before
	}
	after := state{items: slices.Clone(before.items), taken: before.taken}
	after.items[at].Quantity = operation.Quantity
	if operation.Key != "" {
		after.taken = slices.Insert(slices.Clone(before.taken), place, operation.Key)
	}
	return true, after
}

func describe(operation line) string {
	if operation.Operation == "list" {
		return "list: " + texts(operation.Items)
	}
	text := fmt.Sprintf("pet %d := %d", operation.PetId, operation.Quantity)
	if operation.IfMatch != "" {
		text += " if " + operation.IfMatch
	}
	if operation.Key != "" {
		text += " once as " + operation.Key
	}
	return strings.TrimSpace(fmt.Sprintf("%s: %s %s", text, operation.Outcome, operation.Tag))
}

func texts(items []item) string {
	all := make([]string, len(items))
	for n, item := range items {
		all[n] = fmt.Sprintf("%d=%s", item.PetId, item.tag())
	}
	return strings.Join(all, " ")
}
