"""Jobs and pods as workloads, and back: one plane of the engine."""
