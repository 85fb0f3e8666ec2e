package main

import (
	"context"
	_ "unsafe" // for the linkname below

	"sigs.k8s.io/kueue/pkg/scheduler"
	"sigs.k8s.io/kueue/pkg/util/wait"
)

// One scheduling cycle. Kueue offers only an endless run of them, which would leave what is decided to timing.
//
//go:linkname schedule sigs.k8s.io/kueue/pkg/scheduler.(*Scheduler).schedule
func schedule(*scheduler.Scheduler, context.Context) wait.SpeedSignal
