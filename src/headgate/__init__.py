"""Gate-controlled, workload-aware batch scheduling for Kubernetes."""
