"""Laws of holds beside quota, on a whole cluster: others are admitted as without them, and whoever is held starts."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from integration_scenes import (
    CLUSTER_QUEUES,
    GATE,
    LOCAL_QUEUES,
    NODES,
    PODS,
    WORKLOADS,
    Integrations,
    cluster_queue,
    local_queue,
    node,
    pod,
)

DEEDS = ("arrive", "arrive", "arrive", "bind", "delete", "delete", "gone", "wait")
steps = st.tuples(st.sampled_from(DEEDS), st.integers(0, 99))


class World:
    """One queue that owns as much as the nodes have."""

    def __init__(self, sizes, **quota):
        self.scene = Integrations(with_quota=True, **quota)
        self.sizes = {f"n-{index}": size for index, size in enumerate(sizes)}
        self.scene.create(CLUSTER_QUEUES, cluster_queue(sum(sizes)))
        self.scene.create(LOCAL_QUEUES, local_queue())
        for name, size in self.sizes.items():
            self.scene.create(NODES, node(name, size))

    def pods(self):
        return {each["metadata"]["name"]: each for each in self.scene.get(PODS)["items"]}

    def free(self, name):
        taken = [_cpu(each) for each in self.pods().values() if each["spec"].get("nodeName") == name]
        return self.sizes[name] - sum(taken)

    def bind(self, name, node):
        target = {"kind": "Node", "name": node}
        self.scene.ask("POST", f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": target})
        self.scene.patch(f"{PODS}/{name}/status", status={"phase": "Running"})

    def admitted(self):
        found = self.scene.get(WORKLOADS)["items"]
        said = {each["metadata"]["name"]: self.scene.conditions(each["metadata"]["name"]) for each in found}
        return sorted(name for name, each in said.items() if each.get("Admitted", ("",))[0] == "True")

    def gated(self):
        found = self.pods().items()
        return [name for name, each in found if {"name": GATE} in each["spec"].get("schedulingGates", ())]


def _cpu(found):
    return int(found["spec"]["containers"][0]["resources"]["requests"]["cpu"])


class Twins:
    """The same happens to a cluster where workloads are held and to one where they are not."""

    def __init__(self, sizes):
        self.worlds = (World(sizes), World(sizes, max_hold=0.0))
        self.made = 0
        for _ in range(sum(sizes)):
            self.do("arrive", 0)
            self.do("bind", 0)

    def do(self, what, number):
        getattr(self, what)(number)
        for world in self.worlds:
            world.scene.later(0)

    def arrive(self, number):
        self.made += 1
        manifest = pod(f"p{self.made}", cpu=str(1 + number % 2), terminationGracePeriodSeconds=30 + 60 * (number % 2))
        for world in self.worlds:
            world.scene.create(PODS, manifest)

    def bind(self, number):
        """A scheduler that sees only those who have started on both."""
        started = self._alike(lambda each: not each["spec"].get("schedulingGates") and "nodeName" not in each["spec"])
        for name in started:
            size = _cpu(self.worlds[0].pods()[name])
            fit = [each for each in self.worlds[0].sizes if self.worlds[0].free(each) >= size]
            if fit:
                for world in self.worlds:
                    world.bind(name, fit[number % len(fit)])

    def delete(self, number):
        running = self._alike(lambda each: "nodeName" in each["spec"] and "deletionTimestamp" not in each["metadata"])
        if running:
            for world in self.worlds:
                world.scene.delete(f"{PODS}/{running[number % len(running)]}")

    def gone(self, number):
        leaving = self._alike(lambda each: "deletionTimestamp" in each["metadata"])
        if leaving:
            for world in self.worlds:
                world.scene.patch(f"{PODS}/{leaving[number % len(leaving)]}/status", status={"phase": "Failed"})
                world.scene.settle()

    def wait(self, number):
        for world in self.worlds:
            world.scene.later(number)

    def _alike(self, holds):
        first, second = ({name for name, each in world.pods().items() if holds(each)} for world in self.worlds)
        return sorted(first & second)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(sizes=st.lists(st.integers(1, 3), min_size=1, max_size=2), history=st.lists(steps, min_size=4, max_size=12))
def test_others_are_admitted_as_if_nobody_was_held_and_whoever_is_held_starts_in_the_end(sizes, history):
    twins = Twins(sizes)
    held, plain = twins.worlds
    for what, number in history:
        twins.do(what, number)
        assert held.admitted() == plain.admitted(), f"after {what} {number}"
    assert not plain.scene.number("headgate_work_waiting_for_room")
    twins.do("wait", 120)
    assert held.scene.number("headgate_work_waiting_for_room") == 0
    assert held.gated() == plain.gated()
