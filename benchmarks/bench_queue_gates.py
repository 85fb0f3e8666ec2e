"""What pods that wait for capacity of their Volcano queue cost: steps beside few and beside many of them.

python benchmarks/bench_queue_gates.py --queues 100 --pods 10000

Every queue is full. In each round one pod of one queue ends and the next one of that queue is bound; a pod of no queue
comes and is bound beside. The time of a round must not grow with the number of gated pods: the goal is at most 1.5
times that beside few, of which there are five for each queue.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time

from bench_placement import nodes, pods
from msgspec.structs import replace

from headgate.engine.loop import Engine
from headgate.model.effects import Bind, Effect, PatchStatus, RemoveGate
from headgate.model.events import Event, Gone, Observed, Outcome
from headgate.model.keys import Key, Kind
from headgate.model.pod import Pod, PodShape
from headgate.model.resources import Resources
from headgate.model.settings import Settings
from headgate.model.volcano import QUEUE_GATE, VolcanoQueue

NODES = 200
RUNNING = 2  # pods that each queue has capacity for
MOST_TIMES = 1.5  # that a round may take beside many pods what it takes beside few
CPU = Resources.of({"cpu": 100})


def queue_of(number: int) -> VolcanoQueue:
    limit = Resources.of({"cpu": 100 * RUNNING})
    return VolcanoQueue(Key(Kind.VOLCANO_QUEUE, "", f"q{number}"), f"q{number}", "1", capability=limit)


def gated(number: int, queues: int) -> Pod:
    annotations = {QUEUE_GATE: "true", "scheduling.volcano.sh/queue-name": f"q{number % queues}"}
    return Pod(
        Key(Kind.POD, "batch", f"p{number:06}"),
        f"uid-{number}",
        "1",
        labels={},
        annotations=annotations,
        shape=PodShape(requests=CPU, scored_requests=CPU),
        created=float(number),
        scheduler_name="headgate",
        gates=(QUEUE_GATE,),
    )


class Course:
    """An engine whose writes succeed at once."""

    def __init__(self, queues: int, waiting: int) -> None:
        self._engine = Engine(Settings())
        self.now = 0.0
        self._pods = {each.key: each for each in (gated(number, queues) for number in range(waiting))}
        start = time.process_time()
        self._run([*map(Observed, nodes(NODES)), *(Observed(queue_of(n)) for n in range(queues))])
        self._run([Observed(each) for each in self._pods.values()])
        self.start_seconds = time.process_time() - start
        self.bound = {key: each for key, each in self._pods.items() if each.node}
        assert len(self.bound) == RUNNING * queues, f"{len(self.bound)} run"

    def round(self, passing: Pod) -> float:
        """Seconds of CPU for one pod that ends, the one that follows it, and one that has nothing to do with it."""
        ended = next(iter(self.bound))
        self.now += 20.0
        start = time.process_time()
        self._run([Gone(ended, self._pods.pop(ended).uid), Observed(passing)])
        spent = time.process_time() - start
        del self.bound[ended]
        self.bound.update({key: each for key, each in self._pods.items() if each.node and key not in self.bound})
        return spent

    def _run(self, batch: list[Event]) -> None:
        effects: list[Effect] = self._engine.step(batch, self.now)
        while answers := [answer for effect in effects for answer in self._performed(effect)]:
            self._engine.journal.take()
            effects = self._engine.step(answers, self.now)
        self._engine.journal.take()

    def _performed(self, effect: Effect) -> list[Event]:
        match effect:
            case RemoveGate(target):
                if target.key in self._pods:
                    self._pods[target.key] = replace(self._pods[target.key], gates=())
                return [Outcome(effect)]
            case Bind(target, where) if target.key in self._pods:
                self._pods[target.key] = replace(self._pods[target.key], node=where)
                return [Outcome(effect), Observed(self._pods[target.key])]
            case Bind() | PatchStatus():
                return [Outcome(effect)]
        return []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queues", type=int, default=100)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=60)
    arguments = parser.parse_args()
    few = arguments.queues * (RUNNING + 3)
    courses = {few: Course(arguments.queues, few), arguments.pods: Course(arguments.queues, arguments.pods)}
    gc.collect()
    gc.freeze()
    passing = pods(arguments.rounds, 1)
    spent: dict[int, list[float]] = {waiting: [] for waiting in courses}
    for each in passing:
        for waiting, course in courses.items():
            spent[waiting].append(course.round(each))
    print(f"{arguments.queues} full queues, {NODES} nodes; one pod of a queue ends, the next one is bound\n")
    medians = {waiting: statistics.median(times) * 1000 for waiting, times in spent.items()}
    for waiting, course in courses.items():
        told = f"{medians[waiting]:7.2f} ms a round, {course.start_seconds:6.2f} s of CPU to take all in"
        print(f"{waiting:>8,} pods: {told}")
    ratio = medians[arguments.pods] / medians[few]
    print(f"\nwith {arguments.pods:,} pods a round takes {ratio:.2f} times as long as with {few:,}")
    return 0 if ratio <= MOST_TIMES else 1


if __name__ == "__main__":
    sys.exit(main())
