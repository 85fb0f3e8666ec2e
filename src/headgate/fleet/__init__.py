"""Which cluster? Where a workload is dispatched to, which worker cluster keeps it, and which may preempt for it."""
