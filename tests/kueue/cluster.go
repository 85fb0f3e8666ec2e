package main

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/controller/core/indexer"
)

// cluster is the API server as far as scheduling asks it: the workloads as they stand, and a namespace for them.
// What it does not know it panics about, for then Kueue asks what it was not given.
type cluster struct {
	client.Client
	sync.Mutex
	workloads map[string]*kueue.Workload
	touched   map[string]bool // since the last look
	told      []event
}

// event is one that Kueue emitted; about names another workload, where there is one.
type event struct {
	workload, kind, reason, message, about string
}

func (c *cluster) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	c.Lock()
	defer c.Unlock()
	switch into := into.(type) {
	case *corev1.Namespace:
		into.Name = key.Name
		return nil
	case *kueue.Workload:
		found := c.workloads[key.Name]
		if found == nil {
			return apierrors.NewNotFound(kueue.Resource("workloads"), key.Name)
		}
		found.DeepCopyInto(into)
		return nil
	}
	panic(fmt.Sprintf("no %T here", into))
}

func (c *cluster) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	switch into := into.(type) {
	case *corev1.LimitRangeList, *kueue.LocalQueueList:
		return nil
	case *kueue.WorkloadList:
		wanted := (&client.ListOptions{}).ApplyOptions(options)
		for _, one := range c.workloads {
			if has(one, wanted) {
				into.Items = append(into.Items, *one.DeepCopy())
			}
		}
		return nil
	}
	panic(fmt.Sprintf("no %T here", into))
}

func has(one *kueue.Workload, wanted *client.ListOptions) bool {
	for _, field := range wanted.FieldSelector.Requirements() {
		switch field.Field {
		case indexer.WorkloadQueueKey:
			return string(one.Spec.QueueName) == field.Value
		case indexer.WorkloadClusterQueueKey:
			return one.Status.Admission != nil && string(one.Status.Admission.ClusterQueue) == field.Value
		}
	}
	panic(fmt.Sprintf("no such index: %s", wanted.FieldSelector))
}

func (c *cluster) Status() client.SubResourceWriter { return &statuses{cluster: c} }

type statuses struct {
	client.SubResourceWriter
	cluster *cluster
}

// Patch takes the status that Kueue applies, which is all of it but what others apply.
func (s *statuses) Patch(_ context.Context, given client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	s.cluster.Lock()
	defer s.cluster.Unlock()
	status := given.(*kueue.Workload).Status.DeepCopy()
	known := s.cluster.workloads[given.GetName()]
	status.ReclaimablePods = known.Status.ReclaimablePods
	known.Status = *status
	s.cluster.touched[given.GetName()] = true
	return nil
}

func (c *cluster) Eventf(regarding, _ runtime.Object, kind, reason, _, note string, args ...any) {
	c.Lock()
	defer c.Unlock()
	found := event{regarding.(client.Object).GetName(), kind, reason, note, ""}
	if len(args) > 0 {
		found.message = fmt.Sprintf(note, args...)
		if ref, ok := args[0].(klog.ObjectRef); ok {
			found.about = ref.Name
		}
	}
	c.told = append(c.told, found)
}
