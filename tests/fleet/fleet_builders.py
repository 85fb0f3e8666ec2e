"""Replicas on one line: only what a worker cluster says about a workload."""

from builders import kueue_workload

from headgate.fleet.replicas import Replica
from headgate.model.keys import Condition, Key, Kind
from headgate.model.kueue_names import MULTIKUEUE
from headgate.model.pod import PodShape
from headgate.model.queues import GateStatus, PodSet, PreemptionProposal


def condition(type_, status=True, at=0.0, reason=""):
    return Condition(type_, str(status), reason or type_, "", at)


def queued(name="w", **fields):
    defaults = {
        "key": Key(Kind.KUEUE_WORKLOAD, "default", name),
        "uid": f"uid-{name}",
        "version": "1",
        "created": 0.0,
        "pod_sets": (PodSet("main", PodShape()),),
        "queue": "lq",
    }
    return kueue_workload(**{**defaults, **fields})


def replica(cluster, *, admitted=None, reserved=None, blocked=None, opened=None, refused="", cut=False, offer=None):
    """Times at which it was admitted, got quota, signalled, and had its gate opened; `offer` is its proposal."""
    conditions = [condition("Admitted", at=admitted)] if admitted is not None else []
    if reserved is not None or admitted is not None:
        conditions.append(condition("QuotaReserved", at=reserved if reserved is not None else admitted))
    elif refused or blocked is not None:
        conditions.append(condition("QuotaReserved", False, reason=refused or "AdmissionGated"))
    if blocked is not None:
        conditions.append(condition("PreemptionBlocked", at=blocked))
    gates = (GateStatus(MULTIKUEUE, opened is not None, opened or 0.0),)
    workload = queued(preemption_gates=(MULTIKUEUE,), conditions=tuple(conditions), gate_statuses=gates, proposal=offer)
    return Replica(cluster, workload, not cut)


def costs(highest, victims=1, pods=1, since=0.0, total=None):
    return PreemptionProposal(True, victims, highest, highest * victims if total is None else total, pods, since)


NO_WAY = PreemptionProposal(False)
