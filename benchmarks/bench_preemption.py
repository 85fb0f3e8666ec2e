"""How long a decision about who must leave takes, as a ratio to trying it pod by pod on the table in the same run;
and how much work is lost beside the order by priority and age alone.

python benchmarks/bench_preemption.py
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from msgspec import structs

from headgate.engine.scheduler.plugins import plugins_for
from headgate.model.keys import Key, Kind
from headgate.model.node import Node
from headgate.model.pod import GroupKey, Pod, PodShape
from headgate.model.resources import Resources
from headgate.model.settings import Profile
from headgate.placement.neighbours import Neighbours
from headgate.placement.placer import Placer
from headgate.placement.table import NodeTable
from headgate.preemption.budgets import Budgets, Coverage
from headgate.preemption.candidates import Candidates
from headgate.preemption.plain import PlainWorld
from headgate.preemption.policies import LEAST_LOSS, by_importance, work_lost
from headgate.preemption.search import Plan, Preemption, Preemptor, Search
from headgate.preemption.steps import group_domains, solve
from headgate.preemption.units import Running, Standing

GIB = 1 << 30
NOW = 100_000.0
HOUR = 3600.0
GREEDY = structs.replace(LEAST_LOSS, name="PriorityThenNewest", orders=(by_importance,), weighs_work=False)


def shape(cpu: int) -> PodShape:
    asked = Resources.of({"cpu": cpu, "memory": GIB // 16})
    return PodShape(requests=asked, scored_requests=asked)


def pod(name: str, cpu: int, priority: int, **fields: object) -> Pod:
    plain = Pod(Key(Kind.POD, "default", name), f"u-{name}", "1", {}, {}, shape(cpu), 0.0, "headgate", priority)
    return structs.replace(plain, **fields)


def key(name: str) -> GroupKey:
    return GroupKey(Key(Kind.WORKLOAD, "default", name))


def group(size: int, cpu: int, priority: int = 100) -> Preemptor:
    members = tuple(pod(f"gang-{i}", cpu, priority, group=key("gang")) for i in range(size))
    return Preemptor(key("gang"), members, size, priority)


def lone(cpu: int, priority: int = 100) -> Preemptor:
    one = pod("lone", cpu, priority)
    return Preemptor(one.key, (one,), 1, priority)


class Cluster:
    """Nodes of 4 cores; `victim` makes the pod with that number, dealt out evenly."""

    def __init__(self, nodes: int, pods: int, victim: Callable[[int], Pod], gang: int = 0) -> None:
        self.table = NodeTable()
        self.placer = Placer(plugins_for(Profile(), Neighbours(self.table)).rules)
        self.running = Running(self.table, lambda one: Standing(one.priority, one.group, gang, one.group is not None))
        room = Resources.of({"cpu": 4000, "memory": 32 * GIB, "pods": 110})
        for i in range(nodes):
            self.table.put(Node(Key(Kind.NODE, "", f"n-{i}"), f"u{i}", "1", {}, {}, room))
        for i in range(pods):
            self.table.charge(structs.replace(victim(i), node=f"n-{i % nodes}"), f"n-{i % nodes}")
        self.running.refresh()
        self._preemption = Preemption(self.table, self.running, Budgets())

    def plan(self, preemptor: Preemptor) -> Plan:
        found = self._preemption.plan(preemptor, self.placer, NOW)
        assert isinstance(found, Plan), found
        return found

    def pod_by_pod(self, preemptor: Preemptor) -> None:
        """The same decision with every pod charged and released on the table."""
        among = Candidates(self.running, preemptor.priority, NOW, preemptor.key)
        found = Search(self.placer, preemptor, among, Budgets(), plain=False).step_by_step()
        assert found is not None

    def lost_by_priority_and_age(self, preemptor: Preemptor) -> int:
        among = Candidates(self.running, preemptor.priority, NOW, preemptor.key)
        (domain,) = group_domains(self.table, self.placer, preemptor.pods, preemptor.needed, "")
        world = PlainWorld(self.placer.rules.rows, among, domain, {})
        (found,) = solve(world, domain, among, GREEDY, Coverage(among, Budgets()))
        return int(work_lost(found.outcome)[0])


def seconds(work: Callable[[], object], tries: int) -> float:
    """The best of some tries, in processor time."""
    best = float("inf")
    for _ in range(tries):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def low(cpu: int, levels: int = 1) -> Callable[[int], Pod]:
    return lambda i: pod(f"low-{i}", cpu, i % levels, started=float(i))


def in_gangs(cpu: int, size: int) -> Callable[[int], Pod]:
    return lambda i: pod(f"low-{i}", cpu, 1, started=float(i), group=key(f"low-{i // size}"))


def mixed(i: int) -> Pod:
    """One in three never saves its work, one saves it every ten minutes, one did so just now."""
    saving = ({}, {"checkpoint_every": 600.0}, {"checkpointed": NOW - 5.0 * (i % 11)})[i * 7 % 3]
    return pod(f"low-{i}", 900, 1, started=NOW - HOUR * (1 + i * 13 % 47), **saving)


def report(title: str, cluster: Cluster, preemptor: Preemptor, tries: int, compare: bool) -> None:
    victims = len(cluster.plan(preemptor).receipt.victims)
    ours = seconds(lambda: cluster.plan(preemptor), tries)
    line = f"{title:>52}: {ours * 1000:>8.1f} ms, {victims:>5} units leave"
    if compare:
        theirs = seconds(lambda: cluster.pod_by_pod(preemptor), 1)
        line += f", {theirs / ours:>7.0f} times faster than pod by pod"
    print(line)


def decisions(tries: int) -> None:
    print("decisions as in scheduler_perf's workload preemption (100 nodes), then 5,000 nodes with 20,000 pods")
    small = Cluster(100, 1000, low(400))
    report("100 nodes, 1,000 pods leave for a gang of 100", small, group(100, 3970), tries, True)
    report("100 nodes, 1,000 pods, for a gang of 10", small, group(10, 3970), tries, True)
    report("100 nodes, 1,000 pods, for a pod", small, lone(3970), tries, True)
    gangs = Cluster(100, 500, in_gangs(600, 10), gang=10)
    report("100 nodes, 50 gangs of 10, for a gang of 100", gangs, group(100, 3500), tries, True)
    report("100 nodes, 50 gangs of 10, for a gang of 10", gangs, group(10, 3500), tries, True)
    large = Cluster(5000, 20_000, low(1000, levels=5))
    report("5,000 nodes, 20,000 pods, for a gang of 100", large, group(100, 3500), tries, False)
    report("5,000 nodes, 20,000 pods, for a pod", large, lone(3500), tries, False)
    large = Cluster(5000, 20_000, in_gangs(1000, 20), gang=20)
    report("5,000 nodes, 1,000 gangs of 20, for a gang of 100", large, group(100, 3500), tries, False)


def growth(tries: int) -> None:
    print("growth: four pods a node, a gang of 50 and a pod")
    for nodes in (250, 500, 1000, 2000, 4000):
        cluster = Cluster(nodes, 4 * nodes, low(1000, levels=5))
        gang, one = group(50, 3500), lone(3500)
        report(f"{nodes:,} nodes, gang", cluster, gang, tries, nodes <= 500)
        report(f"{nodes:,} nodes, pod", cluster, one, tries, nodes <= 500)


def losses() -> None:
    print("work lost, some pods saving theirs and some not, beside sparing by priority and age alone")
    for size in (10, 50, 100):
        cluster, preemptor = Cluster(400, 1600, mixed), group(size, 3500)
        ours = dict(cluster.plan(preemptor).receipt.criteria)["work lost"]
        theirs = cluster.lost_by_priority_and_age(preemptor)
        print(
            f"{f'a gang of {size} on 400 nodes':>52}: {ours / HOUR:>8.1f} node-hours "
            f"instead of {theirs / HOUR:>8.1f}: {ours / theirs:.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=5)
    options = parser.parse_args()
    decisions(options.tries)
    growth(options.tries)
    losses()


if __name__ == "__main__":
    main()
