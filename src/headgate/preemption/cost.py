"""What is lost when a pod is stopped: the work since it was last saved.

Work is counted in millionths of a node-second: the pod's share of its node in thousandths (the largest share over
all resources it asks for), times the milliseconds since its last checkpoint. A share needs no exchange rate between
cores and devices: who holds half of a node's GPUs keeps others from half of that node, whatever else is free.
"""

from __future__ import annotations

import numpy as np

from headgate.placement.columns import Amounts
from headgate.placement.table import PODS, NodeTable
from headgate.preemption.units import Running, Times

THOUSANDTHS = 1000
NODE_SECOND = 1_000_000  # of the unit of work


def work_lost(running: Running, lines: Amounts, now: float) -> Amounts:
    """The work each of these running pods would lose if it was stopped now; never negative."""
    return shares(running, running.nodes, lines) * unsaved(running, lines, now)


def shares(running: Running, nodes: NodeTable, lines: Amounts) -> Amounts:
    """How much of its node each pod holds, in thousandths, by the resource of which it holds most."""
    rows = running.rows[lines]
    largest = np.zeros(len(lines), dtype=np.int64)
    for name in list(running.requests.names()):
        if name != PODS:
            there = nodes.allocatable[name][rows]
            held = running.requests[name][lines] * THOUSANDTHS // np.maximum(there, 1)
            largest = np.maximum(largest, np.where(there > 0, held, 0))
    return largest


def unsaved(running: Running, lines: Amounts, now: float) -> Amounts:
    """Milliseconds since each pod's work was last saved: at its last checkpoint, or else never since it started.

    A pod that saves its work at intervals was last saved when the latest of them ended. One that has not started has
    nothing to lose. Whatever a pod says of its checkpoints, it loses no more than the time it runs.
    """
    age = np.maximum(np.nan_to_num(now - running.started[lines]), 0)
    every = running.checkpoint_every[lines]
    with np.errstate(invalid="ignore", divide="ignore"):
        since: Times = np.where(every > 0, np.mod(age, every), age)
    saved = now - running.checkpointed[lines]
    since = np.where(np.isnan(saved), since, np.minimum(saved, age))
    milliseconds: Amounts = np.rint(np.maximum(since, 0) * 1000).astype(np.int64)
    return milliseconds
