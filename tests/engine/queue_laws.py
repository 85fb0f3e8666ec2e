"""Laws of Volcano's queues over random histories: what is used and reserved, who goes on, which gates are touched."""

from __future__ import annotations

from collections import Counter
from random import Random

from builders import node
from msgspec.structs import replace
from steps import Steps
from volcano_scenes import queue, queued

from headgate.model.effects import Bind, Evict, Nomination, PatchSpec, PatchStatus, QueueReservation, RemoveGate
from headgate.model.events import Gone, Observed, Outcome, TimerFired, WriteError
from headgate.model.pod import Phase, ScheduledCondition
from headgate.model.settings import Settings, VolcanoSettings
from headgate.model.volcano import QUEUE_GATES

FOREIGN = "example.com/theirs"
SETTINGS = Settings(volcano=VolcanoSettings(reservation_timeout=60.0))
QUEUES = (queue("org", 4000), queue("a", 3000, "org"), queue("b", None, "org", guarantee=1000), queue("c", 2000))
SELECTORS = ((), (("gpu", "yes"),))


class World:
    """The objects as a server has them, and an engine whose writes are performed, lost or refused."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.queues = {each.name: each for each in QUEUES}
        self.nodes = {"n0": node("n0", cpu=3000)}
        self.pods = {}
        self.number = 0
        self.removed = []  # gates that our writes took off
        self.steps = Steps(*self.objects(), settings=SETTINGS)
        self.steps.now = 1000.0

    def objects(self):
        return [*self.queues.values(), *self.nodes.values(), *self.pods.values()]

    def act(self) -> None:
        """Something happens in the cluster, and the engine learns of it."""
        action = self.dice.choice((self._come, self._come, self._come, self._go, self._end, self._grow, self._ungate))
        events = action()
        self.settle(events)

    def settle(self, events) -> None:
        self.steps.now += self.dice.choice((1.0, 1.0, 20.0, 70.0))
        self.steps.step(*events, TimerFired("scheduling"))
        for _ in range(20):
            answers = [answer for effect in self.steps.effects for answer in self._perform(effect)]
            if not answers:
                return
            self.steps.now += 1.0
            self.steps.step(*answers, TimerFired("scheduling"))

    def restart(self) -> None:
        """A fresh process on the same state."""
        now = self.steps.now
        self.steps = Steps(settings=SETTINGS)
        self.steps.now = now
        self.settle([Observed(each) for each in self.objects()])

    def _come(self):
        self.number += 1
        of, cpu = self.dice.choice("aabc"), self.dice.choice((500, 1000, 1000, 2000))
        made = queued(f"p{self.number}", cpu, of, created=self.steps.now, priority=self.dice.choice((0, 0, 0, 5)))
        made = replace(made, shape=replace(made.shape, node_selector=self.dice.choice(SELECTORS)))
        if self.dice.random() < 0.15:
            made = replace(made, gates=(FOREIGN, *made.gates))
        self.pods[made.key] = made
        return [Observed(made)]

    def _ungate(self):
        held = [each for each in self.pods.values() if FOREIGN in each.gates]
        if not held:
            return self._come()
        freed = self.dice.choice(held)
        return [self._put(replace(freed, gates=tuple(gate for gate in freed.gates if gate != FOREIGN)))]

    def _go(self):
        if not self.pods:
            return self._come()
        gone = self.pods.pop(self.dice.choice(sorted(self.pods)))
        return [Gone(gone.key, gone.uid)]

    def _end(self):
        running = [each for each in self.pods.values() if each.node and each.phase is Phase.PENDING]
        return [self._put(replace(self.dice.choice(running), phase=Phase.SUCCEEDED))] if running else self._come()

    def _grow(self):
        name = f"n{len(self.nodes)}"
        labels = {"gpu": "yes"} if self.dice.random() < 0.5 else {}
        self.nodes[name] = node(name, cpu=2000, labels=labels)
        return [Observed(self.nodes[name])] if len(self.nodes) < 8 else []

    def _put(self, pod):
        self.pods[pod.key] = pod
        return Observed(pod)

    def _perform(self, effect):
        """The server's answer and what is observed; an answer may be lost."""
        match effect:
            case Bind(target, where):
                there = self._there(target)
                if there is None or there.gates or there.node:
                    return [Outcome(effect, WriteError.CONFLICT, "gated or bound")]
                return self._answer(effect, replace(there, node=where))
            case RemoveGate(target, gate, index):
                there = self._there(target)
                if there is None or len(there.gates) <= index or there.gates[index] != gate:
                    return [Outcome(effect, WriteError.CONFLICT, "test failed")]
                self.removed.append(gate)
                gates = (*there.gates[:index], *there.gates[index + 1 :])
                return self._answer(effect, replace(there, gates=gates))
            case PatchSpec(target, QueueReservation(at, gates)):
                there = self._there(target)
                if there is None or any(there.gates[index : index + 1] != (gate,) for index, gate in gates):
                    return [Outcome(effect, WriteError.CONFLICT, "test failed")]
                self.removed += [gate for _, gate in gates]
                kept = tuple(gate for gate in there.gates if gate not in dict(gates).values())
                return self._answer(effect, replace(there, gates=kept, reserved_at=at))
            case PatchStatus(target, Nomination(where)):
                there = self._there(target)
                return [] if there is None else self._answer(effect, replace(there, nominated=where))
            case PatchStatus(target, change) if hasattr(change, "reason") and target.key in self.pods:
                there = self._there(target)
                if there is None:
                    return []
                shown = ScheduledCondition(change.status, change.reason, change.message)
                return self._answer(effect, replace(there, scheduled=shown))
            case Evict(target):
                there = self._there(target)
                if there is None:
                    return [Outcome(effect, WriteError.GONE)]
                del self.pods[there.key]
                return [Outcome(effect), Gone(there.key, there.uid)]
        return []

    def _there(self, target):
        there = self.pods.get(target.key)
        return there if there is not None and there.uid == target.uid else None

    def _answer(self, effect, after):
        lost = self.dice.random() < 0.1
        return [Outcome(effect, WriteError.UNKNOWN) if lost else Outcome(effect), self._put(after)]

    # what must hold

    def check(self) -> None:
        """By the objects alone: nothing exceeds a capability at any level, and no foreign gate was removed."""
        assert set(self.removed) <= QUEUE_GATES
        used: Counter[str] = Counter()
        for each in self.pods.values():
            holds = each.node and each.phase is Phase.PENDING
            reserves = not each.node and not each.gates and _says(each) == "Unschedulable"
            if holds or reserves:
                at = each.annotations["scheduling.volcano.sh/queue-name"]
                while at != "root":
                    used[at] += each.shape.requests["cpu"]
                    at = self.queues[at].parent
        for name, limit in ((each.name, dict(each.capability.items).get("cpu")) for each in self.queues.values()):
            assert limit is None or used[name] <= limit, f"{name} uses and reserves {used[name]} of {limit}"

    def verdicts(self):
        """Where each pod is and whether an autoscaler may buy a node for it."""
        return {
            key.name: (bool(each.node), bool(each.gates), None if each.node else _says(each) == "Unschedulable")
            for key, each in self.pods.items()
            if each.phase is Phase.PENDING
        }


def _says(pod) -> str:
    return pod.scheduled.reason if pod.scheduled is not None else ""


def check_history(seed: int, actions: int = 40) -> None:
    world = World(seed)
    for number in range(actions):
        world.act()
        world.check()
        if number % 9 == 8:
            world.restart()
            world.check()


def check_progress(seed: int) -> None:
    """When nothing stands in the way any more, everybody runs: one after another, by what the queues allow."""
    world = World(seed)
    for _ in range(25):
        world.act()
    for number in range(4):
        world.nodes[f"big{number}"] = node(f"big{number}", cpu=16_000, labels={"gpu": "yes"})
    for key in [key for key, each in world.pods.items() if FOREIGN in each.gates]:
        del world.pods[key]
    world.restart()
    for _ in range(80):
        waiting = [each for each in world.pods.values() if not each.node]
        if not waiting:
            return
        running = [each for each in world.pods.values() if each.node and each.phase is Phase.PENDING]
        ended = [world._put(replace(each, phase=Phase.SUCCEEDED)) for each in running]
        world.settle(ended)
    assert not waiting, f"{len(waiting)} pods wait for ever"
