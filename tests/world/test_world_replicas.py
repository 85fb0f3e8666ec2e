"""The controllers of ReplicaSets and Deployments, run against a tiny cluster that does what they ask."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from headgate.model.effects import Create, Delete, Effect, PatchSpec, PatchStatus, ReplicaCounts, Scale, WakeAt
from headgate.model.events import Event, Gone, Observed, Outcome, TimerFired, WriteError
from headgate.model.keys import Key, Kind, Target
from headgate.model.objects import Replicas
from headgate.model.pod import Phase, Pod, PodShape
from headgate.world.replica_sets import DeploymentController, ReplicaSetController

SET = Key(Kind.REPLICA_SET, "default", "web")
DEPLOYMENT = Key(Kind.DEPLOYMENT, "default", "web")
TEMPLATE = Raw(b'{"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}')
OTHER = Raw(bytes(TEMPLATE).replace(b'"i"', b'"j"'))


def replicas(key: Key, count: int = 2, **fields: object) -> Replicas:
    return replace(Replicas(key, "uid", "1", (), replicas=count, template=TEMPLATE), **fields)


class Bench:
    """A ReplicaSet and its pods; what the controller asks for is done, unless its next creation is to fail."""

    def __init__(self, wanted: Replicas, failing: WriteError | None = None) -> None:
        self.controller, self.failing = ReplicaSetController(), failing
        self.pods: dict[str, Pod] = {}
        self.wakes: list[WakeAt] = []
        self.told: ReplicaCounts | None = None
        self.see(Observed(wanted))

    def see(self, *batch: Event, now: float = 0.0) -> None:
        events = list(batch)
        while events:
            events = [event for effect in self.controller.react(events, now) for event in self._do(effect)]

    def _do(self, effect: Effect) -> list[Event]:
        match effect:
            case Create(key) if self.failing is not None:
                trouble, self.failing = self.failing, None
                return [Outcome(effect, trouble, "")]
            case Create(key):
                pod = Pod(key, f"{key.name}-uid", "1", {}, {}, PodShape(), 0.0, owner=Target(SET, "uid"))
                self.pods[key.name] = pod
                return [Observed(pod)]
            case Delete(target):
                self.pods.pop(target.key.name)
                return [Gone(target.key, target.uid)]
            case PatchStatus(_, ReplicaCounts() as counts):
                self.told = counts
            case WakeAt():
                self.wakes.append(effect)
        return []

    def turn(self, name: str, phase: Phase, now: float = 0.0) -> None:
        self.pods[name] = replace(self.pods[name], phase=phase)
        self.see(Observed(self.pods[name]), now=now)


def test_as_many_pods_as_wanted_and_its_status_counts_them():
    bench = Bench(replicas(SET, 3))
    assert len(bench.pods) == 3 and bench.told == ReplicaCounts(0, 3, 0)
    bench.turn(next(iter(bench.pods)), Phase.RUNNING)
    assert bench.told == ReplicaCounts(0, 3, 1)


def test_scaled_down_it_deletes_those_that_lose_least():
    bench = Bench(replicas(SET, 3))
    first, second, third = bench.pods
    bench.turn(second, Phase.RUNNING)
    bench.see(Observed(replicas(SET, 1)))
    assert list(bench.pods) == [second], f"{first} and {third} did not run"


def test_a_pod_that_was_deleted_is_replaced_at_once_and_one_that_ended_after_a_pause():
    bench = Bench(replicas(SET, 1))
    (name,) = bench.pods
    pod = bench.pods.pop(name)
    bench.see(Gone(pod.key, pod.uid))
    (name,) = bench.pods
    bench.turn(name, Phase.FAILED, now=5.0)
    assert list(bench.pods) == [name] and [wake.at for wake in bench.wakes] == [15.0]
    bench.see(TimerFired(bench.wakes[-1].timer), now=15.0)
    assert len(bench.pods) == 2


@pytest.mark.parametrize(
    "trouble, pods",
    [
        pytest.param(WriteError.UNAVAILABLE, 1, id="a write that failed is tried again"),
        pytest.param(WriteError.REFUSED, 0, id="one that is refused is not"),
    ],
)
def test_a_creation_that_fails(trouble, pods):
    assert len(Bench(replicas(SET, 1), trouble).pods) == pods


def test_a_set_that_is_being_deleted_is_left_alone():
    assert Bench(replicas(SET, 2, deleted=1.0)).pods == {}


def made(effects: list[Effect]) -> list[Key]:
    return [effect.key for effect in effects if isinstance(effect, Create)]


def revision(effects: list[Effect], count: int = 2) -> Replicas:
    """The ReplicaSet that was asked for, as it is seen when it exists."""
    (create,) = [effect for effect in effects if isinstance(effect, Create)]
    manifest = msgspec.json.decode(create.manifest)
    assert manifest["spec"]["template"]["metadata"]["labels"]["app"] == "web"
    return replicas(create.key, count, uid=create.key.name, owner=Target(DEPLOYMENT, "uid"))


def test_a_deployment_has_one_set_for_each_template_and_all_replicas_in_the_last():
    controller, wanted = DeploymentController(), replicas(DEPLOYMENT, 2)
    first = revision(controller.react([Observed(wanted)], 0.0))
    assert controller.react([Observed(wanted), Observed(first)], 0.0) == [], "the same again changes nothing"
    changed = replace(wanted, template=OTHER)
    effects = controller.react([Observed(changed)], 1.0)
    second = revision(effects)
    assert second.key != first.key
    assert PatchSpec(first.target, Scale(0)) in effects
    back = controller.react(
        [Observed(second), Observed(replace(first, replicas=0, version="2")), Observed(wanted)], 2.0
    )
    assert made(back) == [] and PatchSpec(first.target, Scale(2)) in back, "an earlier template has its set already"


def test_a_deployment_without_replicas_makes_no_set_and_scales_down_those_it_has():
    controller, wanted = DeploymentController(), replicas(DEPLOYMENT, 2)
    first = revision(controller.react([Observed(wanted)], 0.0))
    effects = controller.react([Observed(first), Observed(replace(wanted, replicas=0, template=Raw(b"{}")))], 0.0)
    assert made(effects) == [] and PatchSpec(first.target, Scale(0)) in effects


def test_a_set_that_could_not_be_created_is_tried_again():
    controller, wanted = DeploymentController(), replicas(DEPLOYMENT, 2)
    (create,) = [effect for effect in controller.react([Observed(wanted)], 0.0) if isinstance(effect, Create)]
    again = controller.react([Outcome(create, WriteError.UNAVAILABLE, "")], 1.0)
    assert made(again) == [create.key]


def test_a_set_that_somebody_deletes_comes_back():
    controller, wanted = DeploymentController(), replicas(DEPLOYMENT, 2)
    first = revision(controller.react([Observed(wanted)], 0.0))
    controller.react([Observed(first)], 0.0)
    assert made(controller.react([Gone(first.key, first.uid)], 1.0)) == [first.key]
