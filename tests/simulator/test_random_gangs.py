"""The promise for gangs and preemption: whatever goes wrong, everyone ends up with enough room or rightly waits.

The simulator itself watches every step: no gang starts with too few pods, nobody leaves twice, for his better, or
without a promise on record, and no gang that leaves whole leaves anyone behind.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from small_scenarios import job, member, nodes, pod, priority_class, scenario, workload

from headgate.simulator.faults import Faults
from headgate.simulator.virtual_time import run

CPU = 4  # of every node
CLASSES = {"low": 1, "middle": 5, "high": 10}
WORKLOAD = "scheduling.headgate.dev/workload"

seconds = st.integers(0, 12)
chances = st.sampled_from([0.0, 0.1, 0.4])
faults = st.builds(
    Faults,
    crash=st.sampled_from([0.0, 0.05, 0.2]),
    lost=chances,
    conflict=chances,
    coalesced=chances,
    dropped=chances,
    stale=st.sampled_from([0.0, 0.5, 3.0]),
    restart=st.sampled_from([0.0, 2.0]),
)
disturbances = st.lists(
    st.one_of(
        st.builds(lambda at: {"at": f"{at}s", "crash": "2s"}, seconds),
        st.builds(lambda at: {"at": f"{at}s", "disconnect": "4s"}, seconds),
        st.builds(lambda at, lag: {"at": f"{at}s", "stale": f"{lag}s"}, seconds, st.integers(0, 4)),
        st.builds(lambda at: {"at": f"{at}s", "dropNode": "n-0"}, seconds),
    ),
    max_size=3,
)
behaviour = st.fixed_dictionaries({"run": st.sampled_from(["", "", "5", "20"]), "stop": st.sampled_from(["", "3"])})
classes = st.sampled_from(sorted(CLASSES))


@st.composite
def gangs(draw):
    """A workload of one gang, when it comes, and when each of its members does."""
    size = draw(st.integers(1, 4))
    least = draw(st.integers(1, size))
    mode = draw(st.sampled_from(["Pod", "PodGroup"]))
    arrivals = draw(st.lists(seconds, min_size=size, max_size=size) | seconds.map(lambda at: [at] * size))
    return draw(seconds), least, mode, draw(classes), draw(st.integers(1, 3)), draw(behaviour), arrivals


lone_pods = st.tuples(seconds, classes, st.integers(1, 4), behaviour, st.booleans())


def timeline(teams, singles):
    """The actions that bring all of them."""
    for number, (at, least, mode, name, cpu, behaves, arrivals) in enumerate(teams):
        made = workload(f"g{number}", least, mode, priorityClassName=name)
        yield {"at": f"{at}s", "apply": [made]}
        for place, comes in enumerate(arrivals):
            each = member(f"g{number}-{place}", f"g{number}", cpu=str(cpu), **behaves)
            yield {"at": f"{comes}s", "apply": [each]}
    for number, (at, name, cpu, behaves, comes_back) in enumerate(singles):
        made = pod(f"p{number}", cpu=str(cpu), priorityClassName=name, **behaves)
        if comes_back:
            made = job(f"p{number}", cpu=str(cpu), run=behaves["run"] or "30", backoffLimit=99)
            made["spec"]["template"]["spec"]["priorityClassName"] = name
        yield {"at": f"{at}s", "apply": [made]}


class End:
    """Who has what when everything has settled."""

    def __init__(self, report):
        found = report.final["main"]
        self.pods = [each for each in found if each["kind"] == "Pod"]
        self.workloads = {each["metadata"]["name"]: each for each in found if each["kind"] == "Workload"}
        self.nodes = [each["metadata"]["name"] for each in found if each["kind"] == "Node"]
        self.running = [each for each in self.pods if each["status"]["phase"] in ("Running", "Pending") and _node(each)]
        self.waiting = [each for each in self.pods if not _node(each)]

    def priority(self, each):
        team = self.workloads.get(_team(each))
        return CLASSES[(team or each)["spec"]["priorityClassName"]]

    def placements(self, cpu, above=None):
        """How many such pods find room; beside only those of at least this priority."""
        used = Counter()
        for each in self.running:
            if above is None or self.priority(each) >= above:
                used[_node(each)] += _cpu(each)
        return sum((CPU - used[name]) // cpu for name in self.nodes)

    def assert_rightly_waits(self, each):
        assert not each["status"].get("nominatedNodeName"), "it waits for room nobody is about to leave"
        needed, team = 1, self.workloads.get(_team(each))
        if _team(each) and team is None:
            return
        if team is not None:
            least = team["spec"]["podGroups"][0]["policy"]["gang"]["minCount"]
            there = sum(_team(other) == _team(each) for other in self.running)
            here = sum(_team(other) == _team(each) for other in self.waiting)
            needed = max(1, least - there)
            if there + here < least:
                return
        assert self.placements(_cpu(each)) < needed, "it waits although there is room"
        assert self.placements(_cpu(each), self.priority(each)) < needed, "it waits although others would have to leave"


def _node(each):
    return each["spec"].get("nodeName")


def _team(each):
    return each["metadata"].get("labels", {}).get(WORKLOAD, "")


def _cpu(each):
    return int(each["spec"]["containers"][0]["resources"]["requests"]["cpu"])


def marks_taken_back_while_they_are_set(size):
    """A gang is marked, its marks are taken back and set again, with most writes failing and several crashes."""
    stays = {"run": "", "stop": ""}
    teams = [
        (5, 4, "PodGroup", "middle", 1, stays, [3] * 4),
        (0, 3, "Pod", "middle", 3, stays, [2] * 3),
        (1, 3, "Pod", "high", 1, {"run": "20", "stop": ""}, [11] * size),
    ]
    singles = [(12, "middle", 1, stays, False), (8, "high", 2, stays, True)]
    faults = Faults(crash=0.05, lost=0.1, conflict=0.4, coalesced=0.1, dropped=0.1, stale=0.5, restart=2.0)
    return teams, singles, 2, faults, [{"at": "12s", "stale": "4s"}, {"at": "7s", "crash": "2s"}], 20


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(gangs(), max_size=3),
    st.lists(lone_pods, max_size=4),
    st.integers(1, 3),
    faults,
    disturbances,
    st.integers(0, 1000),
)
@example(*marks_taken_back_while_they_are_set(3))
@example(*marks_taken_back_while_they_are_set(4))
def test_every_gang_and_every_pod_has_its_room_or_rightly_waits(teams, singles, count, faults, disturbances, seed):
    start = [priority_class(name, value) for name, value in CLASSES.items()]
    actions = [*timeline(teams, singles), *disturbances]
    report = run(scenario(*start, machines=[nodes(count, cpu=str(CPU))], timeline=actions), seed, faults)
    end = End(report)
    assert all(end.placements(1, above=priority) >= 0 for priority in CLASSES.values())
    for each in end.waiting:
        end.assert_rightly_waits(each)
    evictions = sum(entry["decision"] == "evict" for entry in report.journal)
    assert evictions <= 20 * (len(teams) + len(singles)), "they go on preempting each other"
