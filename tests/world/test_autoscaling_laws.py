"""What holds for both autoscalers whatever pods and nodes come and go, in random histories."""

from __future__ import annotations

import random

import pytest
from autoscaling_bench import GATED, UNSCHEDULABLE, Bench, group, on, unschedulable
from builders import node, shape, tolerating
from msgspec.structs import replace

from headgate.model.node import PeerDemands, PodTerm, Taint, TaintEffect
from headgate.model.resources import total
from headgate.world.autoscaling import ClusterAutoscaler, Karpenter

TAINT = Taint("dedicated", "batch", TaintEffect.NO_SCHEDULE)
APART = PeerDemands(anti_affinity=(PodTerm("kubernetes.io/hostname", (), ("default",)),))
AUTOSCALERS = [Karpenter, ClusterAutoscaler]


def groups():
    return (
        group("small", 2000, max=3, delay=20.0, min=1),
        group("large", 8000, max=2, delay=90.0, labels={"pool": "large"}),
        group("tainted", 4000, max=2, delay=0.0, taints=(TAINT,)),
        group("nothing", 0, 0, max=5),
        group("late", 4000, max=2, delay=1000.0, labels={"pool": "late"}),
    )


class History:
    """Pods that come, are gated, nominated, bound where they fit and go; nodes that vanish."""

    def __init__(self, autoscaler, seed):
        self.dice = random.Random(seed)
        self.bench = Bench(autoscaler(groups()))
        self.pods = {}
        first = node("small-0", 2000, 8192, labels={"headgate.dev/node-group": "small"})
        self.bench.nodes["small-0"] = first
        self.bench.see(first)

    def step(self, number):
        self.bench.run(self.bench.now + self.dice.choice((0, 0.3, 1, 4, 10, 33, 200)))
        acts = (self.create, self.create, self.create, self.bind, self.change, self.end, self.drop)
        self.dice.choice(acts)(number)

    def create(self, number):
        for each in range(self.dice.choice((1, 1, 5))):
            fields = {
                "node_selector": self.dice.choice(((), (), (("pool", "large"),), (("pool", "late"),), (("no", "x"),))),
                "tolerations": self.dice.choice(((), tolerating("dedicated"))),
                "peers": self.dice.choice((None, None, None, APART)),
            }
            cpu = self.dice.choice((0, 100, 1000, 2000, 3500, 9000))
            made = unschedulable(
                f"p{number}-{each}",
                created=self.bench.now - self.dice.choice((0, 100)),
                shape=shape(cpu, **fields),
                priority=self.dice.choice((0, 0, 5, -20)),
                scheduled=self.dice.choice((UNSCHEDULABLE, UNSCHEDULABLE, GATED, None)),
            )
            self.put(made)

    def put(self, pod):
        self.pods[pod.key] = pod
        self.bench.see(pod)

    def some(self):
        return self.pods[self.dice.choice(sorted(self.pods))] if self.pods else None

    def bind(self, _):
        pod, names = self.some(), sorted(self.bench.nodes)
        if pod is not None and not pod.node and names:
            self.put(on(self.dice.choice(names), pod))

    def change(self, _):
        pod = self.some()
        if pod is not None and not pod.node:
            nominated = self.dice.choice(("", "small-0", "elsewhere"))
            self.put(replace(pod, nominated=nominated, scheduled=self.dice.choice((UNSCHEDULABLE, GATED))))

    def end(self, _):
        pod = self.some()
        if pod is not None:
            del self.pods[pod.key]
            self.bench.lose(pod)

    def drop(self, _):
        names = sorted(self.bench.nodes)
        if names and self.dice.random() < 0.3:
            self.bench.lose(self.bench.nodes.pop(self.dice.choice(names)))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("autoscaler", AUTOSCALERS)
def test_whatever_happens(autoscaler, seed):
    history = History(autoscaler, seed)
    cloud = history.bench.autoscaler.cloud
    for number in range(60):
        history.step(number)
        for each in cloud.groups:
            there = [instance for instance in cloud.present() if instance.group is each]
            assert len(there) == cloud.size(each) <= each.max
    for instance in cloud.instances:
        check_order(instance)
    assert {name for _, name in history.bench.removed} <= {instance.name for instance in cloud.instances}


def check_order(instance):
    """It is for pods that are unschedulable, wait for no victim, and fit on it together."""
    template = instance.group.template
    for pod in instance.pods:
        assert (pod.node, pod.nominated, pod.scheduled) == ("", "", UNSCHEDULABLE)
        assert set(pod.shape.node_selector) <= set(template.labels.items())
        assert pod.shape.tolerations or not template.taints
    asked = total(pod.shape.requests for pod in instance.pods)
    assert all(amount <= template.allocatable[name] for name, amount in asked)
    assert sum(pod.shape.peers is APART for pod in instance.pods) == 0 or len(instance.pods) == 1
    assert instance.ordered is None or instance.pods, "nobody orders a node for nobody"


@pytest.mark.parametrize("autoscaler", AUTOSCALERS)
def test_one_history_gives_the_same_orders_each_time(autoscaler):
    def orders():
        history = History(autoscaler, 99)
        for number in range(60):
            history.step(number)
        return history.bench.orders, history.bench.removed

    assert orders() == orders()
