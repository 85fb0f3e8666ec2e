"""Nodes: their kubelets run, end and stop bound pods; the pod garbage collector removes the pods of lost nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from headgate.model.effects import Delete, Effect, PatchStatus, PodRun, WakeAt
from headgate.model.events import Event, Gone, Observed, Outcome, TimerFired
from headgate.model.keys import Key, Kind
from headgate.model.node import Node
from headgate.model.pod import ENDED, Phase, Pod

HOSTNAME = "kubernetes.io/hostname"
DEFAULT_PODS = "110"
KILLED = 143  # the exit code of a process ended by SIGTERM
RUN_SECONDS = "headgate.dev/run-seconds"
STOP_SECONDS = "headgate.dev/stop-seconds"
EXIT_CODE = "headgate.dev/exit-code"


class InvalidBehaviour(ValueError):
    """An annotation about the behaviour of a pod has an invalid value."""

    def __init__(self, annotation: str, expected: str, found: str) -> None:
        super().__init__(f"expected {expected}, got {found!r}")
        self.annotation = annotation


class Behaviour(Struct, frozen=True, gc=False):
    """How a pod behaves once it runs, as its annotations say."""

    run_seconds: float | None = None  # None: until it is deleted
    stop_seconds: float = 0.0
    exit_code: int = 0


def behaviour_of(annotations: Mapping[str, str]) -> Behaviour:
    """Raises InvalidBehaviour."""
    run, stop, code = (annotations.get(name) for name in (RUN_SECONDS, STOP_SECONDS, EXIT_CODE))
    if run is None and stop is None and code is None:
        return _UNTIL_DELETED
    return Behaviour(
        run_seconds=None if run is None else _seconds(RUN_SECONDS, run),
        stop_seconds=0.0 if stop is None else _seconds(STOP_SECONDS, stop),
        exit_code=0 if code is None else _exit_code(code),
    )


_UNTIL_DELETED = Behaviour()


def _seconds(annotation: str, text: str) -> float:
    expected = "a number of seconds such as 90 or 0.5"
    try:
        seconds = float(text)
    except ValueError:
        raise InvalidBehaviour(annotation, expected, text) from None
    if not 0 <= seconds < float("inf"):
        raise InvalidBehaviour(annotation, expected, text)
    return seconds


def _exit_code(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= 255):
        raise InvalidBehaviour(EXIT_CODE, "an exit code from 0 to 255", text)
    return int(text)


def complete_node(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """A node as its kubelet registers it: hostname label, capacity for pods, allocatable = capacity, Ready."""
    metadata, status = manifest["metadata"], manifest.get("status") or {}
    labels = {HOSTNAME: metadata.get("name"), **(metadata.get("labels") or {})}
    capacity = {"pods": DEFAULT_PODS, **(status.get("capacity") or status.get("allocatable") or {})}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}
    allocatable = {"pods": capacity["pods"], **(status.get("allocatable") or capacity)}
    completed = {"conditions": [ready], **status, "capacity": capacity, "allocatable": allocatable}
    return {**manifest, "metadata": {**metadata, "labels": labels}, "status": completed}


def _removal(pod: Pod, failed: PatchStatus) -> list[Effect]:
    """Sets the phase first, so that a pod kept by a finalizer no longer counts as running; then deletes the object."""
    removal = Delete(pod.target, grace=0)
    return [removal] if pod.phase in ENDED else [failed, removal]


class PodWorker(Struct):
    """What the kubelet keeps of one pod on its node."""

    pod: Pod
    behaviour: Behaviour
    started: float | None = None
    stops: float | None = None
    reported: Phase = Phase.PENDING
    removed: bool = False


class Kubelet:
    """The kubelets of all nodes. `stuck` names pods (namespace/name) that never stop once deleted, as a fault."""

    reads = (Kind.NODE, Kind.POD)

    def __init__(self, stuck: frozenset[str] = frozenset()) -> None:
        self._stuck = stuck
        self._nodes: dict[str, None] = {}
        self._waiting: dict[str, Pod] = {}  # by uid: bound to a node that does not exist yet
        self._workers: dict[str, PodWorker] = {}  # by pod uid

    def react(self, batch: Sequence[Event], now: float) -> list[Effect]:
        touched: dict[str, None] = {}
        for event in batch:
            for uid in self._observe(event):
                touched[uid] = None
        return [
            effect for uid in touched if uid in self._workers for effect in self._sync(uid, self._workers[uid], now)
        ]

    def _observe(self, event: Event) -> Sequence[str]:
        """Keeps what the event says; returns the uids of the pods to sync because of it."""
        match event:
            case Observed(Pod() as pod):
                return self._add_pod(pod)
            case Observed(Node() as node):
                return self._add_node(node.name)
            case Gone(key, _) if key.kind is Kind.NODE:
                self._nodes.pop(key.name, None)
            case Gone(_, uid):
                self._workers.pop(uid, None)
                self._waiting.pop(uid, None)
            case TimerFired(timer):
                return (timer,)
            case Outcome(effect, trouble) if trouble is not None and isinstance(effect, PatchStatus):
                self._forget_report(effect)
        return ()

    def _add_node(self, node: str) -> list[str]:
        self._nodes[node] = None
        bound_here = [pod for pod in self._waiting.values() if pod.node == node]
        for pod in bound_here:
            del self._waiting[pod.uid]
        return [uid for pod in bound_here for uid in self._add_pod(pod)]

    def _add_pod(self, pod: Pod) -> Sequence[str]:
        if not pod.node:
            return ()
        worker = self._workers.get(pod.uid)
        if worker is None:
            if pod.node not in self._nodes:
                self._waiting[pod.uid] = pod
                return ()
            worker = self._workers[pod.uid] = PodWorker(pod, _behaviour(pod), reported=pod.phase)
        worker.pod = pod
        return (pod.uid,)

    def _forget_report(self, effect: PatchStatus) -> None:
        """The status patch failed; it is sent again when the pod is next synced."""
        worker = self._workers.get(effect.target.uid)
        if worker is not None:
            worker.reported = worker.pod.phase

    def _sync(self, uid: str, worker: PodWorker, now: float) -> list[Effect]:
        if worker.pod.node not in self._nodes:
            return []
        if worker.pod.deleted is not None:
            return self._stop(uid, worker, now)
        if worker.reported in ENDED:
            return []
        if worker.reported is Phase.PENDING or worker.started is None:
            return self._start(uid, worker, now)
        return self._finish(worker, now)

    def _start(self, uid: str, worker: PodWorker, now: float) -> list[Effect]:
        worker.started = now if worker.started is None else worker.started
        effects: list[Effect] = []
        if worker.reported is Phase.PENDING:
            effects.append(_report(worker, Phase.RUNNING, worker.started))
        if worker.behaviour.run_seconds is not None:
            effects.append(WakeAt(worker.started + worker.behaviour.run_seconds, uid))
        return effects

    def _finish(self, worker: PodWorker, now: float) -> list[Effect]:
        run, code = worker.behaviour.run_seconds, worker.behaviour.exit_code
        if run is None or worker.started is None or now < worker.started + run:
            return []
        return [_report(worker, Phase.FAILED if code else Phase.SUCCEEDED, now, code)]

    def _stop(self, uid: str, worker: PodWorker, now: float) -> list[Effect]:
        """A deleted pod stops after its stop time, at most its grace period; then its object is removed."""
        if worker.removed or f"{worker.pod.key.namespace}/{worker.pod.key.name}" in self._stuck:
            return []
        ended = worker.pod.phase in ENDED or worker.started is None
        takes = 0.0 if ended else min(worker.behaviour.stop_seconds, worker.pod.grace)
        before = worker.stops
        worker.stops = now + takes if before is None else min(before, now + takes)
        if now < worker.stops:
            return [] if before == worker.stops else [WakeAt(worker.stops, uid)]
        worker.removed = True
        return _removal(worker.pod, _report(worker, Phase.FAILED, now, KILLED))


def _report(worker: PodWorker, phase: Phase, at: float, code: int | None = None) -> PatchStatus:
    """The containers of a pod run, or have all ended with the same code; one that never ran has none."""
    worker.reported, pod = phase, worker.pod
    named, images = pod.containers if worker.started is not None else (), pod.shape.images
    containers = tuple(zip(named, images[len(images) - len(named) :], strict=True)) if len(images) >= len(named) else ()
    started = None if phase is Phase.RUNNING or not containers else worker.started
    return PatchStatus(pod.target, PodRun(phase, at, exit_code=code, containers=containers, started=started))


def _behaviour(pod: Pod) -> Behaviour:
    """An invalid annotation counts as none here; scenarios refuse it earlier."""
    try:
        return behaviour_of(pod.annotations)
    except InvalidBehaviour:
        return Behaviour()


class NodeLifecycle:
    """Removes the pods of deleted nodes, but not those bound to a node that was never there: it may still come."""

    reads = (Kind.NODE, Kind.POD)

    def __init__(self) -> None:
        self._nodes: dict[str, bool] = {}  # every name ever seen, and whether it exists
        self._pods: dict[str, dict[str, Pod]] = {}  # by node, then by uid
        self._node_of: dict[str, str] = {}  # by pod uid

    def react(self, batch: Sequence[Event], now: float) -> list[Effect]:
        touched: dict[str, None] = {}
        for event in batch:
            match event:
                case Observed(Node() as node):
                    self._nodes[node.name] = True
                case Observed(Pod() as pod) if pod.node:
                    touched[self._add_pod(pod)] = None
                case Gone(key, uid):
                    touched[self._delete(key, uid)] = None
        return [effect for node in touched if self._nodes.get(node) is False for effect in self._collect(node, now)]

    def _add_pod(self, pod: Pod) -> str:
        self._pods.setdefault(pod.node, {})[pod.uid] = pod
        self._node_of[pod.uid] = pod.node
        return pod.node

    def _delete(self, key: Key, uid: str) -> str:
        """Forgets a node or pod; returns the name of a deleted node, else an empty string."""
        if key.kind is Kind.NODE:
            if key.name in self._nodes:
                self._nodes[key.name] = False
            return key.name
        node = self._node_of.pop(uid, "")
        self._pods.get(node, {}).pop(uid, None)
        return ""

    def _collect(self, node: str, now: float) -> list[Effect]:
        pods = self._pods.pop(node, {})
        lost = PodRun(Phase.FAILED, now, "NodeLost")
        return [effect for pod in pods.values() for effect in _removal(pod, PatchStatus(pod.target, lost))]
