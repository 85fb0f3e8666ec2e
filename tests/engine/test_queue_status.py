"""What the status of Volcano's queues and PodGroups says, and when it is written."""

import pytest
from builders import amounts, bound, node, pod
from msgspec.structs import replace
from steps import Steps
from volcano_scenes import Queues, elsewhere, group_key, grouped, pod_group, queue, queue_key, queued

from headgate.engine.in_flight import AwaitedPermits
from headgate.model.effects import PatchStatus, PodGroupStatus, VolcanoQueueStatus
from headgate.model.events import Gone, Observed, Outcome, WriteError, WritePermits
from headgate.model.pod import Phase, ScheduledCondition
from headgate.model.resources import Resources
from headgate.model.settings import Settings, VolcanoSettings
from headgate.model.volcano import PodGroupPhase, QueueCounts, QueueState


def written(steps, kind, name=None):
    """The statuses of this kind, by the name of the object."""
    return {
        each.target.key.name: each.change
        for each in steps.effects
        if isinstance(each, PatchStatus) and isinstance(each.change, kind) and name in (None, each.target.key.name)
    }


def queues(steps):
    return written(steps, VolcanoQueueStatus)


def group(steps):
    return written(steps, PodGroupStatus)["train"]


def test_a_queue_shows_what_its_pods_use_and_reserve_at_every_level():
    pods = [bound(queued("a", 300, gates=()), "n"), queued("b", 500, gated=False, shape=None)]
    pods[1] = replace(pods[1], shape=replace(pods[1].shape, node_selector=(("gpu", "yes"),)))
    steps = Steps(queue("org", 2000), queue("team", None, "org"), node("n"), *pods)
    for name in ("org", "team"):
        assert queues(steps)[name] == VolcanoQueueStatus(QueueState.OPEN, QueueCounts(), amounts(300), amounts(500))


def test_a_queue_without_pods_of_ours_is_somebody_elses():
    theirs = bound(queued("a", gates=(), scheduler_name="volcano"), "n")
    assert queues(Steps(queue("team", 2000), node("n"), theirs)) == {}


def test_a_status_is_written_once_and_again_only_when_something_changed():
    running = bound(queued("a", 300, gates=()), "n")
    steps = Steps(queue("team", 2000), node("n"), running)
    (patch,) = [each for each in steps.effects if isinstance(each, PatchStatus)]
    steps.step(Outcome(patch))
    shown = queue("team", 2000, version="2", state=QueueState.OPEN, allocated=amounts(300))
    steps.see(shown)
    assert queues(steps) == {}
    steps.step(Gone(running.key, running.uid))
    assert queues(steps) == {}, "no pod of ours is left: others may write it"


def test_a_status_that_could_not_be_written_is_decided_anew():
    steps = Steps(queue("team", 2000), node("n"), bound(queued("a", 300, gates=()), "n"))
    (patch,) = [each for each in steps.effects if isinstance(each, PatchStatus)]
    steps.step(Outcome(patch, WriteError.CONFLICT))
    steps.see(queue("team", 2000, version="2"))
    assert queues(steps)["team"].allocated == amounts(300)


def test_what_a_queue_used_before_is_shown_as_zero():
    ended = replace(bound(queued("a", 300, gates=()), "n"), phase=Phase.SUCCEEDED)
    steps = Steps(queue("team", 2000, state=QueueState.OPEN, allocated=amounts(300)), node("n"), ended)
    assert queues(steps)["team"].allocated == Resources.of({"cpu": 0})


@pytest.mark.parametrize(
    "state, running, expected",
    [
        pytest.param(None, True, QueueState.OPEN, id="a new queue is open"),
        pytest.param(QueueState.CLOSING, True, QueueState.CLOSING, id="closing while pods run"),
        pytest.param(QueueState.CLOSING, False, QueueState.CLOSED, id="closed when none is left"),
        pytest.param(QueueState.CLOSED, False, QueueState.CLOSED, id="closed stays closed"),
        pytest.param(QueueState.UNKNOWN, True, QueueState.OPEN, id="open again once its place is known"),
    ],
)
def test_the_state_of_a_queue(state, running, expected):
    worker = bound(queued("a", 300, gates=()), "n")
    worker = worker if running else replace(worker, phase=Phase.SUCCEEDED)
    steps = Steps(queue("team", 2000, state=state, allocated=amounts(700)), node("n"), worker)
    assert queues(steps)["team"].state is expected


def test_a_queue_without_a_place_in_the_tree_is_unknown():
    steps = Steps(queue("team", 2000, "gone"), node("n"), bound(queued("a", gates=()), "n"))
    assert queues(steps)["team"].state is QueueState.UNKNOWN


def test_an_open_queue_whose_status_is_closing_takes_no_new_pods():
    steps = Steps(queue("team", 2000, state=QueueState.CLOSING), node("n", cpu=4000), queued("a"))
    assert steps.binds == {}


MEMBERS = [grouped(f"m{n}", created=float(n)) for n in range(3)]


@pytest.mark.parametrize(
    "pods, phase, reason",
    [
        pytest.param(MEMBERS[:2], PodGroupPhase.INQUEUE, "NotEnoughTasks", id="pods are missing"),
        pytest.param(
            [bound(each, "n") for each in MEMBERS[:1]] + MEMBERS[1:],
            PodGroupPhase.UNKNOWN,
            "NotEnoughResources",
            id="fewer run than it needs",
        ),
        pytest.param([bound(each, "n") for each in MEMBERS], PodGroupPhase.RUNNING, "Ready", id="all have a node"),
    ],
)
def test_the_phase_of_a_pod_group(pods, phase, reason):
    pods = [replace(each, gates=()) if each.node else each for each in pods]
    steps = Steps(queue("team", 9000), pod_group(members=3), node("n", cpu=1000), *pods)
    found = group(steps)
    assert found.phase is phase
    assert [each.reason for each in found.conditions if each.status == "True"] == [reason]


@pytest.mark.parametrize(
    "cpu, message",
    [
        pytest.param(2000, "queue team has no capacity for its pods", id="the queue has no capacity"),
        pytest.param(9000, "0 of 3 needed pods have a node", id="no node fits, as the pods say"),
        pytest.param(3000, "0 of 3 needed pods have a node", id="the queue has none for one that it does not need"),
    ],
)
def test_a_group_in_queue_says_why_it_does_not_start(cpu, message):
    refused = ScheduledCondition("False", "Unschedulable", "")
    pods = [replace(each, gates=(), scheduled=refused) for each in (*MEMBERS, grouped("m9", created=9.0))]
    found = group(Steps(queue("team", cpu), pod_group(members=3), node("n", cpu=1000), *pods))
    assert found.phase is PodGroupPhase.INQUEUE
    assert [(each.type, each.reason, each.message) for each in found.conditions] == [
        ("Unschedulable", "NotEnoughResources", message)
    ]


@pytest.mark.parametrize("opted_in", [True, False], ids=["that asked for the gate", "that never asked for the gate"])
def test_a_group_says_that_its_queue_has_no_capacity_any_more_for_pods(opted_in):
    """A pod that no node fits reserves nothing if it never asked for the gate: what it fitted others may use up."""
    waits = grouped("m0", gated=False, scheduled=ScheduledCondition("False", "Unschedulable", ""))
    waits = waits if opted_in else replace(waits, annotations={})
    steps = Steps(queue("team", 1000), pod_group(members=1), node("n", cpu=100), waits)
    assert [each.message for each in group(steps).conditions] == ["0 of 1 needed pods have a node"]
    (patch,) = [each for each in steps.effects if isinstance(getattr(each, "change", None), PodGroupStatus)]
    said = pod_group(members=1, version="2", conditions=patch.change.conditions)
    steps.step(Outcome(patch), Observed(said), Observed(queue("team", 500, version="2")))
    assert [each.message for each in group(steps).conditions] == ["queue team has no capacity for its pods"]


def test_a_group_of_which_enough_reserve_their_capacity_waits_for_nodes_alone():
    """Whether or not its queue has some for one more, which never asked for the gate and may have fitted before."""
    said = {"gated": False, "scheduled": ScheduledCondition("False", "Unschedulable", "")}
    more = replace(grouped("more", created=1.0, **said), annotations={})
    steps = Steps(queue("team", 1500), pod_group(members=0), node("n", cpu=100), grouped("m0", **said), more)
    assert [each.message for each in group(steps).conditions] == ["0 of 1 needed pods have a node"]


def test_a_group_is_pending_again_once_another_queue_uses_what_both_share():
    tree = queue("org", 2000), queue("team", None, "org"), queue("other", None, "org")
    wants = pod_group(members=2, volcano={"min_resources": amounts(2000)})
    steps = Steps(*tree, wants, node("n", cpu=4000), grouped("m0"))
    (patch,) = [each for each in steps.effects if isinstance(getattr(each, "change", None), PodGroupStatus)]
    assert patch.change.phase is PodGroupPhase.INQUEUE
    shown = {"phase": patch.change.phase, "min_resources": amounts(2000)}
    said = pod_group(members=2, version="2", conditions=patch.change.conditions, volcano=shown)
    steps.step(Outcome(patch), Observed(said))
    steps.see(bound(queued("theirs", 500, "other", gates=()), "n"))
    assert group(steps).phase is PodGroupPhase.PENDING


def test_a_group_is_pending_while_its_queue_has_no_capacity_for_its_min_resources():
    wants = pod_group(members=1, volcano={"min_resources": amounts(3000)})
    steps = Steps(queue("team", 2000), wants, node("n", cpu=100), grouped("m0"))
    assert group(steps).phase is PodGroupPhase.PENDING
    assert queues(steps)["team"].counts == QueueCounts(pending=1)
    (condition,) = group(steps).conditions
    assert condition.message == "queue team has cpu 2, and cpu 0 is in use or reserved; requested cpu 3"


def test_a_group_whose_pods_are_all_done_is_completed():
    done = [replace(bound(each, "n"), gates=(), phase=Phase.SUCCEEDED) for each in MEMBERS]
    steps = Steps(queue("team", 2000), pod_group(members=3), node("n"), *done)
    found = group(steps)
    assert (found.phase, found.succeeded) == (PodGroupPhase.COMPLETED, 3)
    assert queues(steps)["team"].counts == QueueCounts(completed=1)


def test_a_pod_group_of_another_scheduler_is_left_alone():
    theirs = grouped("m0", scheduler_name="volcano")
    assert written(Steps(queue("team", 2000), pod_group(members=1), theirs), PodGroupStatus) == {}


def test_nothing_is_kept_of_queues_groups_and_pods_that_are_gone():
    member = replace(bound(grouped("m0"), "n"), gates=())
    steps = Steps(queue("team", 2000), pod_group(members=1), node("n"), member, pod("x"))
    for key, uid in ((member.key, member.uid), (group_key("train"), "uid-train"), (queue_key("team"), "uid-team")):
        steps.step(Gone(key, uid))
    statuses = steps.engine._planes[0]._queue_statuses
    assert not statuses._pods
    assert not statuses._phases
    assert not statuses._queue_of
    assert len(statuses.writes) == 0


# what changes elsewhere


def answered(steps):
    """The server has carried out what was written."""
    return steps.step(*(Outcome(each) for each in steps.effects if isinstance(each, PatchStatus)))


def test_a_queue_is_shown_as_soon_as_it_has_a_pod_of_ours_that_waits():
    steps = Steps(queue("org", 2000), queue("team", 0, "org"), node("n"))
    assert queues(steps) == {}
    steps.see(queued("a"))
    assert set(queues(steps)) == {"org", "team"}


def test_a_queue_whose_parent_is_gone_is_unknown():
    shown = queue("team", 2000, "org", state=QueueState.OPEN, allocated=amounts(300))
    steps = Steps(queue("org", 2000), shown, node("n"), bound(queued("a", 300, gates=()), "n"))
    assert set(queues(steps)) == {"org"}
    steps.step(Gone(queue_key("org"), "uid-org"))
    assert queues(steps)["team"].state is QueueState.UNKNOWN


def test_a_queue_that_another_one_left_shows_what_it_has_now():
    shown = {"state": QueueState.OPEN, "allocated": amounts(300)}
    team = queue("team", 2000, "org", **shown)
    steps = Steps(queue("org", 2000, **shown), team, node("n"), bound(queued("a", 300, gates=()), "n"))
    assert queues(steps) == {}
    steps.see(replace(team, parent="root", version="2"), queue("other", 9, "org"), queued("b", 100, "other"))
    assert queues(steps)["org"].allocated == Resources.of({"cpu": 0})


def test_a_group_is_pending_again_when_a_queue_beside_it_takes_what_it_needs():
    tree = [queue("org", 1000), queue("team", None, "org"), queue("beside", None, "org")]
    wants = pod_group(members=2, volcano={"min_resources": amounts(800)})
    steps = Steps(*tree, wants, node("n"), grouped("m0"))
    assert group(steps).phase is PodGroupPhase.INQUEUE
    answered(steps)
    shown = replace(wants, volcano=replace(wants.volcano, phase=PodGroupPhase.INQUEUE), version="2")
    steps.see(shown, bound(queued("a", 500, "beside", gates=()), "n"))
    assert group(steps).phase is PodGroupPhase.PENDING


def test_what_a_queue_counts_waits_for_a_permit_and_is_the_latest_then_while_its_state_is_told_at_once():
    steps = Steps(queue("team", 2000, state=QueueState.OPEN), node("n"))
    steps.engine.step([WritePermits(0)], 0.0)
    running = [bound(queued(name, 300, gates=()), "n") for name in "ab"]
    steps.see(running[0])
    assert (queues(steps), steps.engine.awaited_permits) == ({}, AwaitedPermits(1, steps.now))
    steps.see(running[1])
    steps.step(WritePermits(1))
    assert queues(steps) == {"team": VolcanoQueueStatus(QueueState.OPEN, QueueCounts(), amounts(600), Resources())}
    assert steps.engine.awaited_permits is None
    steps.see(queue("other", 2000), bound(queued("c", 100, "other", gates=()), "n"))
    assert queues(steps)["other"].state is QueueState.OPEN


def test_a_group_says_that_its_queue_is_too_full_by_now_for_a_pod_of_it_that_rests():
    """Another pod of the group, which somebody else let go, took the capacity while it rested."""
    times = Settings(volcano=VolcanoSettings(reservation_timeout=100.0))
    resting = replace(elsewhere("resting", gated=False, group=grouped("m").group), reserved_at=0.0)
    late = elsewhere("late", gated=False, group=grouped("m").group, created=5.0)
    steps = Queues(queue("team", 1000), node("n"), described := pod_group(), settings=times)
    steps.later(110.0).see(resting)
    patch = next(e for e in steps.effects if isinstance(e, PatchStatus) and isinstance(e.change, PodGroupStatus))
    assert patch.change.conditions == ()
    shown = replace(described.volcano, phase=patch.change.phase)
    steps.step(Outcome(patch), Observed(replace(described, volcano=shown, version="2")))
    steps.later(5.0).see(late)
    assert group(steps).conditions[0].message == "queue team has no capacity for its pods"
