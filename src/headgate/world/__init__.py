"""What does the rest of a cluster do? Kubelets, the Job controller and node lifecycle, as pure rules."""
