"""Which pods and workloads are preempted?"""
