"""The kubelets of all nodes: bound pods start, run for their time, end, and stop when deleted."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from headgate.model.effects import Effect, PatchStatus, PodRun, WakeAt
from headgate.model.events import Event, Gone, Observed, Outcome, TimerFired
from headgate.model.keys import Kind
from headgate.model.node import Node
from headgate.model.pod import ENDED, Phase, Pod
from headgate.world.behaviour import Behaviour, InvalidBehaviour, behaviour_of
from headgate.world.endings import remove

KILLED = 143  # the exit code of a process ended by SIGTERM


class Care(Struct):
    """What a kubelet remembers of one pod on its node."""

    pod: Pod
    behaviour: Behaviour
    started: float | None = None
    stops: float | None = None
    reported: Phase = Phase.PENDING
    removed: bool = False


class Kubelet:
    """`stuck` names pods (namespace/name) that never stop once deleted: a fault to try."""

    reads = (Kind.NODE, Kind.POD)

    def __init__(self, stuck: frozenset[str] = frozenset()) -> None:
        self._stuck = stuck
        self._nodes: dict[str, None] = {}
        self._waiting: dict[str, Pod] = {}  # by uid: bound to a node that does not exist yet
        self._cared: dict[str, Care] = {}  # by pod uid

    def react(self, batch: Sequence[Event], now: float) -> list[Effect]:
        touched: dict[str, None] = {}
        for event in batch:
            for uid in self._absorb(event):
                touched[uid] = None
        return [effect for uid in touched if uid in self._cared for effect in self._tend(uid, self._cared[uid], now)]

    def _absorb(self, event: Event) -> Sequence[str]:
        """Notes what the event says; the uids of the pods to look after because of it."""
        match event:
            case Observed(Pod() as pod):
                return self._take_in(pod)
            case Observed(Node() as node):
                return self._open(node.name)
            case Gone(key, _) if key.kind is Kind.NODE:
                self._nodes.pop(key.name, None)
            case Gone(_, uid):
                self._cared.pop(uid, None)
                self._waiting.pop(uid, None)
            case TimerFired(timer):
                return (timer,)
            case Outcome(effect, trouble) if trouble is not None and isinstance(effect, PatchStatus):
                self._unsay(effect)
        return ()

    def _open(self, node: str) -> list[str]:
        self._nodes[node] = None
        arrived = [pod for pod in self._waiting.values() if pod.node == node]
        for pod in arrived:
            del self._waiting[pod.uid]
        return [uid for pod in arrived for uid in self._take_in(pod)]

    def _take_in(self, pod: Pod) -> Sequence[str]:
        if not pod.node:
            return ()
        care = self._cared.get(pod.uid)
        if care is None:
            if pod.node not in self._nodes:
                self._waiting[pod.uid] = pod
                return ()
            care = self._cared[pod.uid] = Care(pod, _behaviour(pod), reported=pod.phase)
        care.pod = pod
        return (pod.uid,)

    def _unsay(self, effect: PatchStatus) -> None:
        """The report did not arrive; it is made again when the pod is next looked at."""
        care = self._cared.get(effect.target.uid)
        if care is not None:
            care.reported = care.pod.phase

    def _tend(self, uid: str, care: Care, now: float) -> list[Effect]:
        if care.pod.node not in self._nodes:
            return []
        if care.pod.deleted is not None:
            return self._stop(uid, care, now)
        if care.reported in ENDED:
            return []
        if care.reported is Phase.PENDING or care.started is None:
            return self._start(uid, care, now)
        return self._end_in_time(care, now)

    def _start(self, uid: str, care: Care, now: float) -> list[Effect]:
        care.started = now if care.started is None else care.started
        effects: list[Effect] = []
        if care.reported is Phase.PENDING:
            effects.append(_report(care, Phase.RUNNING, care.started))
        if care.behaviour.run_seconds is not None:
            effects.append(WakeAt(care.started + care.behaviour.run_seconds, uid))
        return effects

    def _end_in_time(self, care: Care, now: float) -> list[Effect]:
        run, code = care.behaviour.run_seconds, care.behaviour.exit_code
        if run is None or care.started is None or now < care.started + run:
            return []
        return [_report(care, Phase.FAILED if code else Phase.SUCCEEDED, now, code)]

    def _stop(self, uid: str, care: Care, now: float) -> list[Effect]:
        """A deleted pod takes its time to stop, never longer than its grace; then it is gone."""
        if care.removed or f"{care.pod.key.namespace}/{care.pod.key.name}" in self._stuck:
            return []
        ended = care.pod.phase in ENDED or care.started is None
        takes = 0.0 if ended else min(care.behaviour.stop_seconds, care.pod.grace)
        before = care.stops
        care.stops = now + takes if before is None else min(before, now + takes)
        if now < care.stops:
            return [] if before == care.stops else [WakeAt(care.stops, uid)]
        care.removed = True
        return remove(care.pod, now, exit_code=KILLED)


def _report(care: Care, phase: Phase, at: float, code: int | None = None) -> PatchStatus:
    care.reported = phase
    return PatchStatus(care.pod.target, PodRun(phase, at, exit_code=code))


def _behaviour(pod: Pod) -> Behaviour:
    """An annotation nobody can read is as good as none; scenarios refuse it before it gets here."""
    try:
        return behaviour_of(pod.annotations)
    except InvalidBehaviour:
        return Behaviour()
