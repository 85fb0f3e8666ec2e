package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"

	config "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/scheduler"
	"sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
	"sigs.k8s.io/kueue/pkg/util/routine"
	"sigs.k8s.io/kueue/pkg/workload"
)

const (
	namespace = "default"
	firstTime = 1_000_000 // seconds; everything in a world is older
	roundTime = 1_000     // seconds from one round to the next
	enough    = 4         // times that the same is said before it will be said for ever; flavors are fewer
)

// stage is Kueue's caches and its scheduler, with us in the part of its controllers.
type stage struct {
	ctx       context.Context
	clock     *testingclock.FakeClock
	cluster   *cluster
	cache     *schdcache.Cache
	queues    *qcache.Manager
	wake      func(context.Context) int
	scheduler *scheduler.Scheduler
}

type atOnce struct{}

func (atOnce) Run(f func()) { f() }

func newStage(world *World, now int64) *stage {
	routine.DefaultWrapper = atOnce{}
	clock := testingclock.NewFakeClock(time.Unix(now, 0))
	api := &cluster{workloads: map[string]*kueue.Workload{}, touched: map[string]bool{}}
	for i := range world.Workloads {
		api.workloads[world.Workloads[i].Name] = &world.Workloads[i]
	}
	expected := expectations.New()
	cache := schdcache.New(api, schdcache.WithFairSharing(world.Fair != nil))
	queues, requeuer := qcache.NewManagerForUnitTestsWithRequeuer(
		api, cache, qcache.WithClock(clock), qcache.WithPreemptionExpectations(expected))
	s := &stage{ctx: context.Background(), clock: clock, cluster: api, cache: cache, queues: queues}
	s.wake = requeuer.ProcessRequeues
	s.furnish(world)
	options := []scheduler.Option{scheduler.WithClock(nil, clock), scheduler.WithPreemptionExpectations(expected)}
	if world.Fair != nil {
		options = append(options, scheduler.WithFairSharing(&config.FairSharing{PreemptionStrategies: world.Fair}))
	}
	s.scheduler = scheduler.New(queues, cache, api, api, options...)
	return s
}

func (s *stage) furnish(world *World) {
	log := logr.Discard()
	for i := range world.Flavors {
		s.cache.AddOrUpdateResourceFlavor(log, &world.Flavors[i])
	}
	for i := range world.Cohorts {
		must(s.cache.AddOrUpdateCohort(&world.Cohorts[i]))
		s.queues.AddOrUpdateCohort(s.ctx, &world.Cohorts[i])
	}
	for i := range world.Queues {
		queue := &world.Queues[i]
		must(s.cache.AddClusterQueue(s.ctx, queue))
		must(s.queues.AddClusterQueue(s.ctx, queue))
		local := &kueue.LocalQueue{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: queue.Name}}
		local.Spec.ClusterQueue = kueue.ClusterQueueReference(queue.Name)
		must(s.cache.AddLocalQueue(local))
		must(s.queues.AddLocalQueue(s.ctx, local))
	}
}

// play runs rounds: cycles until they repeat themselves, and then the evicted are gone and queue up again.
func play(world *World) Answer {
	var answer Answer
	s := newStage(world, firstTime)
	for round := range world.Rounds {
		if world.Restarts && round > 0 {
			s = newStage(world, firstTime+int64(round)*roundTime)
		}
		s.wake(s.ctx)
		answer.Rounds = append(answer.Rounds, s.round(world.Cycles))
		s.clock.Step(roundTime * time.Second)
		s.sendAway()
	}
	return answer
}

func (s *stage) round(most int) []Cycle {
	played := []Cycle{}
	seen := map[string]int{}
	for range most {
		if len(s.queues.Dump()) == 0 {
			break
		}
		cycle := s.cycle()
		played = append(played, cycle)
		if cycle.changesAnything() {
			clear(seen)
		}
		text := fmt.Sprint(cycle)
		if seen[text]++; seen[text] == enough {
			break
		}
	}
	return played
}

func (c *Cycle) changesAnything() bool {
	return slices.ContainsFunc(c.Outcomes, func(one Outcome) bool { return one.Admitted || len(one.Victims) > 0 })
}

func (s *stage) cycle() Cycle {
	s.cluster.told = nil
	schedule(s.scheduler, s.ctx)
	for name := range s.cluster.touched {
		s.observe(s.cluster.workloads[name].DeepCopy())
	}
	clear(s.cluster.touched)
	return Cycle{s.outcomes(), s.line()}
}

// observe does what Kueue's controller does when a workload's status was written.
func (s *stage) observe(seen *kueue.Workload) {
	log := logr.Discard()
	if workload.HasQuotaReservation(seen) {
		s.queues.DeleteWorkload(log, workload.Key(seen))
		s.cache.AddOrUpdateWorkload(log, seen)
	} else {
		must(s.queues.AddOrUpdateWorkload(log, seen))
	}
}

func (s *stage) outcomes() []Outcome {
	found := map[string]*Outcome{}
	of := func(name string) *Outcome {
		if found[name] == nil {
			found[name] = &Outcome{Workload: name, Victims: map[string]string{}}
		}
		return found[name]
	}
	for _, told := range s.cluster.told {
		switch {
		case told.kind == corev1.EventTypeWarning:
			said := s.condition(told.workload, kueue.WorkloadQuotaReserved) // where an event would be cut short
			of(told.workload).Reason, of(told.workload).Message = said.Reason, said.Message
		case told.reason == "QuotaReserved":
			s.fillIn(of(told.workload))
		case told.reason == "PreemptedWorkload":
			of(told.workload).Victims[told.about] = s.condition(told.about, kueue.WorkloadPreempted).Reason
		}
	}
	sorted := []Outcome{}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		sorted = append(sorted, *found[name])
	}
	return sorted
}

func (s *stage) condition(name, kind string) *metav1.Condition {
	return apimeta.FindStatusCondition(s.cluster.workloads[name].Status.Conditions, kind)
}

func (s *stage) fillIn(outcome *Outcome) {
	outcome.Admitted = true
	outcome.Flavors, outcome.Counts = map[string]map[string]string{}, map[string]int32{}
	for _, given := range s.cluster.workloads[outcome.Workload].Status.Admission.PodSetAssignments {
		outcome.Counts[string(given.Name)] = *given.Count
		flavors := map[string]string{}
		for resource, flavor := range given.Flavors {
			flavors[string(resource)] = string(flavor)
		}
		outcome.Flavors[string(given.Name)] = flavors
	}
}

func (s *stage) line() map[string][]string {
	line := map[string][]string{}
	for queue, waiting := range s.queues.Dump() {
		for _, key := range waiting {
			line[string(queue)] = append(line[string(queue)], string(key)[len(namespace)+1:])
		}
		slices.Sort(line[string(queue)])
	}
	return line
}

// sendAway is what controllers do once the pods of the evicted are gone.
func (s *stage) sendAway() {
	log := logr.Discard()
	for _, name := range slices.Sorted(maps.Keys(s.cluster.workloads)) {
		one := s.cluster.workloads[name]
		if !workload.HasQuotaReservation(one) || !apimeta.IsStatusConditionTrue(one.Status.Conditions, kueue.WorkloadEvicted) {
			continue
		}
		workload.UnsetQuotaReservationWithCondition(one, "Pending", "The workload was evicted", s.clock.Now())
		workload.SetRequeuedCondition(one, kueue.WorkloadEvictedByPreemption, "", true)
		s.queues.QueueAssociatedInadmissibleWorkloadsAfter(s.ctx, workload.Key(one), func() {
			must(s.cache.DeleteWorkload(log, workload.Key(one)))
			must(s.queues.AddOrUpdateWorkloadWithoutLock(log, one.DeepCopy()))
		})
	}
}
