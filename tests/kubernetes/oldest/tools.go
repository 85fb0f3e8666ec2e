//go:build tools

// Package tools names the older program that `make nightly` builds, so that go.sum covers it.
package tools

import _ "k8s.io/kubernetes/cmd/kubectl"
