"""What is shown of a running cluster: its nodes, its pods by state, its queues, and the last decisions."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from headgate.lifecycle.workload.conditions import ADMITTED, FINISHED
from headgate.live.logs import Fields, Log, LogLevel, LogStream
from headgate.model.effects import Effect
from headgate.model.events import Event, Gone, Observed
from headgate.model.keys import Key, Kind
from headgate.model.pod import ENDED, Pod
from headgate.model.quantity import counted
from headgate.model.queues import QueuedWorkload

GATED, TERMINATING = "Gated", "Terminating"
STATES = (GATED, "Pending", "Running", TERMINATING, "Succeeded", "Failed", "Unknown")
WAITS, HAS_QUOTA = "pending", "admitted"
KEPT = 8  # decisions
MOST_QUEUES = 10  # shown


class ClusterSummary:
    """Counts, as a controller that asks for nothing."""

    reads = (Kind.POD, Kind.NODE, Kind.KUEUE_WORKLOAD)

    def __init__(self) -> None:
        self._states: dict[Key, str] = {}  # of pods
        self._workloads: dict[Key, tuple[str, str]] = {}  # the queue of each that is not finished, and how it is there
        self._nodes: dict[Key, None] = {}

    def react(self, batch: Sequence[Event], now: float) -> list[Effect]:
        for event in batch:
            match event:
                case Observed(Pod() as pod):
                    self._states[pod.key] = _state(pod)
                case Observed(QueuedWorkload() as workload):
                    self._see_workload(workload)
                case Observed(node):
                    self._nodes[node.key] = None
                case Gone(key, _):
                    for kept in (self._states, self._workloads, self._nodes):
                        kept.pop(key, None)
        return []

    def _see_workload(self, workload: QueuedWorkload) -> None:
        if workload.is_true(FINISHED):
            self._workloads.pop(workload.key, None)
            return
        queue = f"{workload.key.namespace}/{workload.queue}"
        self._workloads[workload.key] = (queue, HAS_QUOTA if workload.is_true(ADMITTED) else WAITS)

    def lines(self) -> Iterator[str]:
        """How things are, in a few lines."""
        states = Counter(self._states.values())
        pods = ", ".join(f"{states[state]} {state}" for state in STATES if states[state]) or "none"
        yield f"{counted(len(self._nodes), 'node')}, pods: {pods}"
        queues = sorted({queue for queue, _ in self._workloads.values()})
        counts = Counter(self._workloads.values())
        for queue in queues[:MOST_QUEUES]:
            yield f"queue {queue}: {counts[queue, HAS_QUOTA]} {HAS_QUOTA}, {counts[queue, WAITS]} {WAITS}"
        if len(queues) > MOST_QUEUES:
            yield f"and {len(queues) - MOST_QUEUES} more queues"


def _state(pod: Pod) -> str:
    if pod.phase in ENDED:
        return pod.phase.value
    if pod.deleted is not None:
        return TERMINATING
    return GATED if pod.gates and not pod.node else pod.phase.value


class DecisionLog(Log):
    """Decisions, warnings and errors; nothing of what the process says about itself."""

    def __init__(self, out: LogStream, cluster: str, wall: Callable[[], float]) -> None:
        def line(at: float, level: LogLevel, message: str, fields: Fields) -> str:
            return decision_line(cluster, at, level, message, fields)

        super().__init__(out, line, LogLevel.INFO, wall)

    def info(self, message: str, **fields: object) -> None:
        pass


def decision_line(cluster: str, at: float, level: LogLevel, message: str, fields: Mapping[str, object]) -> str:
    """12:00:00 bind pods/default/a Scheduled: assigned to n-1"""
    time = datetime.fromtimestamp(at, UTC).astimezone().strftime("%H:%M:%S")
    where = f"{cluster}: " if cluster else ""
    kind = "" if level is LogLevel.INFO else f"{level.name}: "
    about, reason = fields.get("object", ""), fields.get("reason", "")
    why = ": ".join(str(part) for part in (reason, fields.get("detail") or fields.get("error")) if part)
    return " ".join(part for part in (time, f"{where}{kind}{message}", str(about), why) if part) + "\n"


class LastDecisions:
    """The last few lines that were written."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=KEPT)

    def write(self, text: str, /) -> None:
        self.lines.extend(text.splitlines())

    def flush(self) -> None:
        pass
