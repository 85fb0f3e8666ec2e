"""Which workloads lose their quota for a pending workload: Kueue's classical rules, or fair sharing.

`search` is what both share: who may be preempted at all, in which order, and giving back those that are not needed.
"""
