"""Whether a queue is active, with the reason and message of its condition Active."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from headgate.model.kueue_names import MULTIKUEUE
from headgate.model.queues import AdmissionCheck, ClusterQueue, LocalQueue, ResourceFlavor, StopPolicy

PROVISIONING = "kueue.x-k8s.io/provisioning-request"


class Activity(Struct, frozen=True, gc=False):
    active: bool
    reason: str
    message: str
    unsupported: str = ""  # what the queue asks for that is not built


def queue_activity(
    queue: ClusterQueue, flavors: Mapping[str, ResourceFlavor], checks: Mapping[str, AdmissionCheck]
) -> Activity:
    """The first problem gives the reason; the message lists all of them."""
    if queue.deleted is not None:
        return Activity(False, "Terminating", "Can't admit new workloads; clusterQueue is terminating")
    wrong = [(reason, text) for reason, find in _TROUBLES if (text := find(queue, flavors, checks))]
    if not wrong:
        return Activity(True, "Ready", "Can admit new workloads")
    unsupported = ", ".join(text for find in _NOT_BUILT if (text := find(queue, flavors, checks)))
    message = f"Can't admit new workloads: {', '.join(text for _, text in wrong)}."
    return Activity(False, wrong[0][0], message, unsupported)


def local_activity(local: LocalQueue, queue: Activity | None) -> Activity:
    if local.stop_policy is not StopPolicy.NONE:
        return Activity(False, "Stopped", "LocalQueue is stopped")
    if queue is None:
        return Activity(False, "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue")
    if not queue.active:
        return Activity(False, "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue")
    return Activity(True, "Ready", "Can submit new workloads to localQueue")


Flavors = Mapping[str, ResourceFlavor]
Checks = Mapping[str, AdmissionCheck]


def _stopped(queue: ClusterQueue, flavors: Flavors, checks: Checks) -> str:
    return "is stopped" if queue.stop_policy is not StopPolicy.NONE else ""


def _missing_flavors(queue: ClusterQueue, flavors: Flavors, checks: Checks) -> str:
    named = [quotas.flavor for group in queue.groups for quotas in group.flavors]
    return _listing("references missing ResourceFlavor(s)", [name for name in named if name not in flavors])


def _missing_checks(queue: ClusterQueue, flavors: Flavors, checks: Checks) -> str:
    return _listing(
        "references missing AdmissionCheck(s)", [one.name for one in queue.checks if one.name not in checks]
    )


def _inactive_checks(queue: ClusterQueue, flavors: Flavors, checks: Checks) -> str:
    known = [checks[one.name] for one in queue.checks if one.name in checks]
    return _listing("references inactive AdmissionCheck(s)", [one.key.name for one in known if not _is_active(one)])


def _many_fleets(queue: ClusterQueue, flavors: Flavors, checks: Checks) -> str:
    found = _run_by(MULTIKUEUE, queue, checks)
    return _listing("can have only one MultiKueue AdmissionCheck", found) if len(found) > 1 else ""


def _fleet_by_flavor(queue: ClusterQueue, flavors: Flavors, checks: Checks) -> str:
    found = _run_by(MULTIKUEUE, queue, checks)
    narrowed = [one.name for one in queue.checks if one.name in found and one.on_flavors]
    return _listing("cannot specify MultiKueue AdmissionCheck per flavor", narrowed)


def _fleet_and_provisioning(queue: ClusterQueue, flavors: Flavors, checks: Checks) -> str:
    if not _run_by(MULTIKUEUE, queue, checks):
        return ""
    return _listing("cannot use ProvisioningRequest with MultiKueue", _run_by(PROVISIONING, queue, checks))


def _topologies(queue: ClusterQueue, flavors: Flavors, checks: Checks) -> str:
    named = [quotas.flavor for group in queue.groups for quotas in group.flavors]
    found = [name for name in named if name in flavors and flavors[name].topology]
    return _listing("topology-aware scheduling is not supported (topologyName of ResourceFlavor)", found)


def _concurrent_admission(queue: ClusterQueue, flavors: Flavors, checks: Checks) -> str:
    return "concurrent admission is not supported (concurrentAdmissionPolicy)" if queue.concurrent_admission else ""


def _unsupported_checks(queue: ClusterQueue, flavors: Flavors, checks: Checks) -> str:
    found = [f"{name} ({PROVISIONING})" for name in _run_by(PROVISIONING, queue, checks)]
    return _listing("the controllers of AdmissionCheck(s) are not supported", found)


_TROUBLES: Sequence[tuple[str, Callable[[ClusterQueue, Flavors, Checks], str]]] = (
    ("Stopped", _stopped),
    ("FlavorNotFound", _missing_flavors),
    ("AdmissionCheckNotFound", _missing_checks),
    ("AdmissionCheckInactive", _inactive_checks),
    ("MultipleMultiKueueAdmissionChecks", _many_fleets),
    ("MultiKueueAdmissionCheckAppliedPerFlavor", _fleet_by_flavor),
    ("MultiKueueWithProvisioningRequest", _fleet_and_provisioning),
    ("TopologyNotFound", _topologies),
    ("AdmissionCheckInactive", _unsupported_checks),
    ("ConcurrentAdmissionNotSupported", _concurrent_admission),
)
_NOT_BUILT = (_topologies, _unsupported_checks, _concurrent_admission)


def _is_active(check: AdmissionCheck) -> bool:
    return any(one.type == "Active" and one.status == "True" for one in check.conditions)


def _run_by(controller: str, queue: ClusterQueue, checks: Checks) -> list[str]:
    return [one.name for one in queue.checks if one.name in checks and checks[one.name].controller == controller]


def _listing(text: str, names: Sequence[str]) -> str:
    return f"{text}: {','.join(names)}" if names else ""
