"""Laws of the fleet plane over random fleets: partitions, crashes, lost answers, drained queues. Each takes a seed."""

from random import Random

from fleet_scenes import CLUSTER_QUEUES, JOBS, WORKLOADS, Fleet
from integration_scenes import CLASSES

LAWS = {}
"""Every law by its name."""
LOST = 200.0  # seconds a workload waits for the cluster it runs on
TIMEOUT = 60.0  # seconds between two gates that open
PRIORITIES = {"low": 0, "middle": 10, "high": 100}
STEPS = 12


def law(check):
    LAWS[check.__name__] = check
    return check


class RandomFleet:
    """Workers with work of their own, Jobs at home, and whatever can happen to them."""

    def __init__(self, seed):
        self.dice = dice = Random(seed)
        self.sizes = {name: dice.randint(2, 5) for name in "abcd"[: dice.randint(2, 4)]}
        window = dice.choice([0.0, 1.0])
        self.fleet = Fleet(
            self.sizes, worker_lost_timeout=LOST, single_cluster_preemption_timeout=TIMEOUT, proposal_window=window
        )
        for cluster in (self.fleet.home, *self.fleet.workers.values()):
            for name, value in PRIORITIES.items():
                kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
                cluster.create(CLASSES, {**kind, "value": value})
        self.jobs = {}  # cpus, by name
        self.trouble = 0.0  # how likely a write goes wrong
        self.cut_since = {}
        self.checks = []  # called after every write
        self.fleet.fault = self._fault
        self.fleet.watch = self._watch
        for name, cpu in self.sizes.items():
            if dice.random() < 0.7:
                self.fleet.occupy(name, "own", dice.randint(1, cpu), template=self._class("low", "middle"))
        self.fleet.settle()

    def _class(self, *names):
        return {"priorityClassName": self.dice.choice(names)}

    def _fault(self, cluster, write):
        if self.dice.random() >= self.trouble:
            return ""
        return self.dice.choice(["before", "after", "lost", "conflict"])

    def _watch(self):
        for check in self.checks:
            check(self)

    def live(self):
        """Some things happen, with time between them."""
        acts = (self._submit, self._submit, self._cut, self._heal, self._restart, self._end, self._drain, self._delete)
        self._submit()
        for _ in range(STEPS):
            self.trouble = self.dice.choice([0.0, 0.0, 0.1])
            self.dice.choice(acts)()
            self.fleet.later(self.dice.choice([0.0, 1.0, 5.0, 30.0, 90.0]))
        return self

    def calm(self):
        """All is well again, and the workers have no work but ours."""
        self.trouble = 0.0
        for name, worker in self.fleet.workers.items():
            self._heal(name)
            worker.patch(f"{CLUSTER_QUEUES}/cq", spec={"stopPolicy": "None"})
            if "own" in worker.names(JOBS):
                worker.delete(f"{JOBS}/own")
        self.fleet.later(90.0)
        return self

    def _submit(self):
        name = f"j{len(self.jobs)}"
        self.jobs[name] = self.dice.randint(1, max(self.sizes.values()))
        self.fleet.submit(name, self.jobs[name], template=self._class(*PRIORITIES))

    def _cut(self):
        name = self.dice.choice(list(self.sizes))
        if name not in self.fleet.cut_off:
            self.cut_since[name] = self.fleet.now
            self.fleet.cut(name)

    def _heal(self, name=""):
        name = name or self.dice.choice(list(self.sizes))
        self.cut_since.pop(name, None)
        self.fleet.heal(name)

    def _restart(self):
        whose = self.dice.choice([None, *self.fleet.workers.values()])
        self.fleet.restart() if whose is None else whose.start()

    def _end(self):
        for name, cluster in self.running():
            if self.dice.random() < 0.5:
                self.fleet.workers[cluster].end(name)

    def _drain(self):
        policy = self.dice.choice(["None", "HoldAndDrain"])
        self.dice.choice(list(self.fleet.workers.values())).patch(f"{CLUSTER_QUEUES}/cq", spec={"stopPolicy": policy})

    def _delete(self):
        name = self.dice.choice(list(self.jobs))
        if name in self.fleet.home.names(JOBS):
            self.fleet.home.delete(f"{JOBS}/{name}")

    def running(self):
        return [(name, cluster) for name in self.jobs for cluster in self.fleet.running(name)]

    def opened(self):
        return {(name, cluster) for name in self.jobs for cluster in self.fleet.open_gates(name)}


@law
def a_workload_runs_in_at_most_one_cluster(seed):
    """A cluster that was given up is not counted: it was cut off for as long as is waited for it."""

    def check(found):
        now, places = found.fleet.now, {}
        for name, cluster in found.running():
            if now - found.cut_since.get(cluster, now) < LOST:
                places.setdefault(name, []).append(cluster)
        assert all(len(each) == 1 for each in places.values()), f"at {now}: {places}"

    found = RandomFleet(seed)
    found.checks.append(check)
    found.live()
    given_up = {name for name, since in found.cut_since.items() if found.fleet.now - since >= LOST}
    if given_up:
        found.checks.clear()  # what comes back is removed a moment later
    found.calm()
    check(found)


@law
def at_most_one_gate_is_opened_within_the_timeout(seed):
    """From one reservation of quota at home to the next, on whatever clusters."""
    opened, known = {}, set()

    def check(found):
        now = found.opened()
        for name, cluster in sorted(now - known):
            home = found.fleet.home.workload(name)
            if home is None:
                continue
            (reserved,) = [each for each in home["status"]["conditions"] if each["type"] == "QuotaReserved"]
            place = name, reserved["lastTransitionTime"]
            before, where = opened.get(place, (-TIMEOUT, cluster))
            assert where == cluster or found.fleet.now - before >= TIMEOUT, f"{name}: {where} at {before}, {cluster}"
            opened[place] = found.fleet.now, cluster
        known.clear()
        known.update(now)

    found = RandomFleet(seed)
    found.checks.append(check)
    found.live().calm()


@law
def every_workload_that_some_cluster_could_run_runs_and_nothing_is_left_behind(seed):
    found = RandomFleet(seed).live().calm()
    fleet = found.fleet
    for _ in range(3 * len(found.jobs)):
        for name, cluster in found.running():
            fleet.workers[cluster].end(name)
        fleet.later(30.0)
    for name in fleet.home.names(JOBS):
        ended = [each["type"] for each in fleet.home.job(name)["status"].get("conditions", [])]
        assert "Complete" in ended, f"{name} never ran: {fleet.home.workload(name)}"
        fleet.home.delete(f"{JOBS}/{name}")
    fleet.later(120.0)
    left = {name: worker.names(JOBS) + worker.names(WORKLOADS) for name, worker in fleet.workers.items()}
    assert not any(left.values()), left
    assert fleet.home.names(WORKLOADS) == []
