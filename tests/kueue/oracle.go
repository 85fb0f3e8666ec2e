// The oracle answers what Kueue itself decides in a world of queues: one world per line in, one answer per line out.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	ctrl "sigs.k8s.io/controller-runtime"

	config "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

const longestLine = 64 << 20 // bytes

// World is everything there is, as Kubernetes objects. Workloads whose status has an admission hold quota.
type World struct {
	Gates     map[string]bool             `json:"gates"`
	Fair      []config.PreemptionStrategy `json:"fair"` // none: no fair sharing
	Flavors   []kueue.ResourceFlavor      `json:"flavors"`
	Cohorts   []kueue.Cohort              `json:"cohorts"`
	Queues    []kueue.ClusterQueue        `json:"queues"` // each has a LocalQueue of the same name
	Workloads []kueue.Workload            `json:"workloads"`
	Rounds    int                         `json:"rounds"`   // after each of them the evicted are gone
	Cycles    int                         `json:"cycles"`   // at most so many in a round
	Restarts  bool                        `json:"restarts"` // after each round, so that only objects are remembered
}

// Outcome is what became of one workload in one cycle; Count and Flavors by pod set are of those admitted.
type Outcome struct {
	Workload string                       `json:"workload"`
	Admitted bool                         `json:"admitted"`
	Reason   string                       `json:"reason"`
	Message  string                       `json:"message"`
	Flavors  map[string]map[string]string `json:"flavors,omitempty"`
	Counts   map[string]int32             `json:"counts,omitempty"`
	Victims  map[string]string            `json:"victims,omitempty"` // those told to leave now, with the reason
}

// Cycle is what happened in one cycle, and who can be tried again without anything changing, by queue.
type Cycle struct {
	Outcomes []Outcome           `json:"outcomes"`
	Line     map[string][]string `json:"line"`
}

// Answer has the cycles of each round.
type Answer struct {
	Rounds [][]Cycle `json:"rounds"`
}

func main() {
	ctrl.SetLogger(logr.Discard())
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, longestLine)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var world World
		must(json.Unmarshal(lines.Bytes(), &world))
		must(utilfeature.DefaultMutableFeatureGate.SetFromMap(world.Gates))
		must(out.Encode(play(&world)))
	}
	must(lines.Err())
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
