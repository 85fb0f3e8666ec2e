"""Laws of debt on random worlds: nodes are never asked for more than they have; all that waits starts in the end."""

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from integration_scenes import (
    CLUSTER_QUEUES,
    GROUP,
    LOCAL_QUEUES,
    PODS,
    TOTAL,
    WORKLOAD_CLASSES,
    WORKLOADS,
    Integrations,
    cluster_queue,
    local_queue,
    member,
    pod,
)
from test_integrations_room import NODES, node

LONG = {"terminationGracePeriodSeconds": 60}
MOST_STEPS = 20
DEEDS = ("single", "urgent", "urgent", "group", "replace", "bind", "bind", "leave", "gone")
steps = st.tuples(st.sampled_from(DEEDS), st.integers(0, 99))


class World:
    """Queues own as much as the nodes have. Schedulers, kubelets and users do whatever the numbers say."""

    def __init__(self, sizes):
        self.scene = Integrations(with_quota=True)
        self.sizes = {f"n-{index}": size for index, size in enumerate(sizes)}
        preemption = {"withinClusterQueue": "LowerPriority"}
        self.scene.create(CLUSTER_QUEUES, cluster_queue(sum(sizes), preemption=preemption))
        self.scene.create(LOCAL_QUEUES, local_queue())
        self.scene.create(WORKLOAD_CLASSES, {"metadata": {"name": "urgent"}, "value": 100})
        for name, size in self.sizes.items():
            self.scene.create(NODES, node(name, size))
        self.made = 0
        self._fill()

    def _fill(self):
        """Every node is full of small pods and pairs of them."""
        for _ in range(sum(self.sizes.values()) // 3):
            self.do("single", 0)
            self.do("group", 0)
        for _ in range(sum(self.sizes.values())):
            self.do("bind", 0)

    def do(self, what, number):
        getattr(self, what)(number)
        self.scene.settle()

    def single(self, number):
        self._make(lambda name: [pod(name, cpu=str(1 + number % 2), **LONG)])

    def urgent(self, number):
        labels = {"kueue.x-k8s.io/priority-class": "urgent"}
        self._make(lambda name: [pod(name, cpu=str(1 + number % 2), labels=labels, **LONG)])

    def group(self, number):
        total = 2 + number % 2
        self._make(lambda name: [member(f"{name}-{each}", total, name, **LONG) for each in range(total)])

    def replace(self, number):
        """Whoever made a group makes another pod in place of one that leaves or ended."""
        members = [each for each in self.scene.get(PODS)["items"] if GROUP in each["metadata"]["labels"]]
        if members:
            group = members[number % len(members)]["metadata"]["labels"][GROUP]
            total = members[number % len(members)]["metadata"]["annotations"][TOTAL]
            self._make(lambda name: [member(name, int(total), group, **LONG)])

    def _make(self, manifests):
        self.made += 1
        for manifest in manifests(f"p{self.made}"):
            self.scene.create(PODS, manifest)

    def bind(self, number):
        """A scheduler: it sees only what is bound."""
        waiting = [each for each in self.pods() if _is_started(each) and not _node(each) and not _is_leaving(each)]
        if not waiting:
            return
        chosen = waiting[number % len(waiting)]
        fit = [name for name in self.sizes if self.free(name) >= _cpu(chosen)]
        if fit:
            name = chosen["metadata"]["name"]
            target = {"kind": "Node", "name": fit[number % len(fit)]}
            self.scene.ask("POST", f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": target})
            self.scene.patch(f"{PODS}/{name}/status", status={"phase": "Running"})

    def leave(self, number):
        """Somebody deletes a pod that runs."""
        running = [each for each in self.pods() if _node(each) and not _is_leaving(each)]
        if running:
            self.scene.delete(f"{PODS}/{running[number % len(running)]['metadata']['name']}")

    def gone(self, number):
        leaving = [each for each in self.pods() if _node(each) and _is_leaving(each)]
        if leaving:
            name = leaving[number % len(leaving)]["metadata"]["name"]
            self.scene.patch(f"{PODS}/{name}/status", status={"phase": "Failed"})

    def pods(self):
        """Those that have not ended."""
        found = self.scene.get(PODS)["items"]
        return [each for each in found if each.get("status", {}).get("phase") not in ("Succeeded", "Failed")]

    def free(self, name):
        return self.sizes[name] - sum(_cpu(each) for each in self.pods() if _node(each) == name)

    def asked(self):
        """Of all nodes, by pods that run, leave or look for a node."""
        return sum(_cpu(each) for each in self.pods() if _is_started(each) and (_node(each) or not _is_leaving(each)))

    def gated_though_admitted(self):
        admitted = {
            owner["name"]
            for found in self.scene.get(WORKLOADS)["items"]
            if self.scene.conditions(found["metadata"]["name"]).get("Admitted", ("",))[0] == "True"
            for owner in found["metadata"].get("ownerReferences", ())
        }
        gated = [each["metadata"]["name"] for each in self.pods() if not _is_started(each) and not _is_leaving(each)]
        return [name for name in gated if name in admitted]


def _is_started(found):
    return not found["spec"].get("schedulingGates")


def _is_leaving(found):
    return "deletionTimestamp" in found["metadata"]


def _node(found):
    return found["spec"].get("nodeName", "")


def _cpu(found):
    return int(found["spec"]["containers"][0]["resources"]["requests"]["cpu"])


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3), history=st.lists(steps, max_size=MOST_STEPS))
@example(sizes=[1, 3], history=[("leave", 1), ("replace", 0), ("leave", 1), ("replace", 0)])  # two pushed out by turns
def test_nodes_are_never_asked_for_more_than_they_have_and_what_waits_starts_in_the_end(sizes, history):
    world = World(sizes)
    for what, number in history:
        world.do(what, number)
        assert world.asked() <= sum(sizes), f"after {what} {number}"
    for _ in world.pods():
        world.do("gone", 0)
        assert world.asked() <= sum(sizes)
    world.scene.settle()
    assert world.gated_though_admitted() == []
    assert world.scene.number("headgate_work_waiting_for_room") == 0
    assert world.scene.number("headgate_released_debt", cluster_queue="cq", flavor="default", resource="cpu") == 0
