"""The StatefulSet controller, run against a tiny cluster that does what it asks."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from headgate.model.effects import Create, Delete, Effect
from headgate.model.events import Event, Gone, Observed, Outcome, WriteError
from headgate.model.keys import Key, Kind, Target
from headgate.model.objects import StatefulSet
from headgate.model.pod import Phase, Pod, PodShape
from headgate.world.replica_sets import StatefulSetController

KEY = Key(Kind.STATEFUL_SET, "default", "web")
TEMPLATE = Raw(b'{"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}')


def stateful_set(replicas: int = 3, **fields: object) -> StatefulSet:
    made = StatefulSet(KEY, "uid-web", "1", (), replicas=replicas, template=TEMPLATE)
    return replace(made, **fields)


class Bench:
    """The controller and its pods. What it asks for is done; pods run only when they are told to."""

    def __init__(self, wanted: StatefulSet) -> None:
        self.controller = StatefulSetController()
        self.pods: dict[str, Pod] = {}
        self.made: list[Create] = []
        self.see(Observed(wanted))

    def see(self, *batch: Event) -> None:
        events = list(batch)
        while events:
            effects = self.controller.react(events, 0.0)
            events = [event for effect in effects for event in self._do(effect)]

    def _do(self, effect: Effect) -> list[Event]:
        match effect:
            case Create(key):
                self.made.append(effect)
                pod = Pod(
                    key, f"{key.name}-{len(self.made)}", "1", {}, {}, PodShape(), 0.0, owner=Target(KEY, "uid-web")
                )
                self.pods[key.name] = pod
                return [Observed(pod)]
            case Delete(target):
                self.pods.pop(target.key.name)
                return [Gone(target.key, target.uid)]
        raise AssertionError(f"nobody expects {effect}")

    def become(self, name: str, phase: Phase) -> None:
        self.pods[name] = replace(self.pods[name], phase=phase)
        self.see(Observed(self.pods[name]))

    def lose(self, name: str) -> None:
        pod = self.pods.pop(name)
        self.see(Gone(pod.key, pod.uid))


def test_pods_come_one_after_another() -> None:
    bench = Bench(stateful_set())
    assert list(bench.pods) == ["web-0"]
    bench.become("web-0", Phase.RUNNING)
    assert list(bench.pods) == ["web-0", "web-1"]
    bench.become("web-1", Phase.RUNNING)
    bench.become("web-2", Phase.RUNNING)
    assert list(bench.pods) == ["web-0", "web-1", "web-2"]


def test_pods_come_all_at_once_where_the_set_lets_them() -> None:
    assert list(Bench(stateful_set(in_order=False)).pods) == ["web-0", "web-1", "web-2"]


def test_a_pod_is_made_of_the_template_and_numbered() -> None:
    (made,) = Bench(stateful_set(1)).made
    metadata = msgspec.json.decode(made.manifest)["metadata"]
    number = {"statefulset.kubernetes.io/pod-name": "web-0", "apps.kubernetes.io/pod-index": "0"}
    assert metadata["labels"] == {"app": "web", **number}
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("StatefulSet", "uid-web", True)


@pytest.mark.parametrize("phase", [Phase.FAILED, Phase.SUCCEEDED])
def test_a_pod_that_ended_is_replaced_by_one_of_its_name(phase: Phase) -> None:
    bench = Bench(stateful_set(1))
    first = bench.pods["web-0"].uid
    bench.become("web-0", phase)
    assert list(bench.pods) == ["web-0"]
    assert bench.pods["web-0"].uid != first


def test_a_pod_that_is_gone_is_replaced() -> None:
    bench = Bench(stateful_set(2, in_order=False))
    bench.lose("web-0")
    assert sorted(bench.pods) == ["web-0", "web-1"]


def test_pods_too_many_leave_the_last_first() -> None:
    bench = Bench(stateful_set(3, in_order=False))
    for name in list(bench.pods):
        bench.become(name, Phase.RUNNING)
    bench.see(Observed(stateful_set(1)))
    assert list(bench.pods) == ["web-0"]


@pytest.mark.parametrize(
    "trouble, made",
    [
        pytest.param(WriteError.UNAVAILABLE, 1, id="what did not reach the server is asked for again"),
        pytest.param(WriteError.REFUSED, 0, id="what the server will not have is not"),
    ],
)
def test_trouble(trouble: WriteError, made: int) -> None:
    controller = StatefulSetController()
    (create,) = controller.react([Observed(stateful_set())], 0.0)
    assert isinstance(create, Create)
    assert len(controller.react([Outcome(create, trouble)], 0.0)) == made


def test_a_set_that_goes_is_left_to_garbage_collection() -> None:
    bench = Bench(stateful_set(1))
    bench.see(Observed(stateful_set(1, deleted=1.0)))
    bench.lose("web-0")
    bench.see(Gone(KEY, "uid-web"))
    assert bench.pods == {}
