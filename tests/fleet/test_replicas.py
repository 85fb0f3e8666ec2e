"""What is read off remote Workloads: who has won, and whether they are still like the one at home."""

import pytest
from fleet_builders import queued, replica

from headgate.fleet.replicas import Answer, Drift, drift, winner
from headgate.model.kueue_names import MULTIKUEUE, ORIGIN_UID
from headgate.model.pod import PodShape
from headgate.model.queues import PodSet, PriorityClassRef


@pytest.mark.parametrize(
    "replicas, chosen",
    [
        pytest.param([], "", id="nobody"),
        pytest.param([replica("a", reserved=1.0)], "", id="quota alone is not enough"),
        pytest.param([replica("a", admitted=9.0), replica("b", admitted=5.0)], "b", id="the oldest admission"),
        pytest.param([replica("b", admitted=5.0), replica("a", admitted=5.0)], "b", id="of equals the first in order"),
        pytest.param([replica("a", admitted=1.0, cut=True), replica("b", admitted=5.0)], "b", id="who can be asked"),
    ],
)
def test_the_winner(replicas, chosen):
    found = winner(replicas)
    assert (found.cluster if found is not None else "") == chosen


@pytest.mark.parametrize(
    "change, found",
    [
        pytest.param({}, Drift.NONE, id="nothing"),
        pytest.param({"preemption_gates": (MULTIKUEUE,)}, Drift.NONE, id="the gate is its own"),
        pytest.param(
            {"priority_class": PriorityClassRef("g", "k", "n")}, Drift.NONE, id="the class is resolved at home"
        ),
        pytest.param({"priority": 7}, Drift.PRIORITY, id="the priority can be changed"),
        pytest.param({"queue": "other"}, Drift.SPEC, id="another queue"),
        pytest.param({"pod_sets": (PodSet("main", PodShape(), 2),)}, Drift.SPEC, id="another number of pods"),
        pytest.param({"max_execution_seconds": 5}, Drift.SPEC, id="another time limit"),
        pytest.param({"active": False}, Drift.SPEC, id="somebody deactivated it"),
        pytest.param({"annotations": {ORIGIN_UID: "uid-w"}}, Drift.NONE, id="it says of whom it is a replica"),
        pytest.param({"annotations": {ORIGIN_UID: "uid-before"}}, Drift.SPEC, id="of one that had the name before"),
    ],
)
def test_how_a_replica_differs(change, found):
    assert drift(queued(), queued(**change)) is found


@pytest.mark.parametrize(
    "found, answer",
    [
        pytest.param(replica("a"), Answer.NONE, id="it says nothing"),
        pytest.param(replica("a", refused="PendingEvaluation"), Answer.NONE, id="it waits for its turn"),
        pytest.param(replica("a", refused="WaitingForQuota"), Answer.REFUSED, id="there is no quota"),
        pytest.param(replica("a", blocked=1.0), Answer.BLOCKED, id="the gate holds it back"),
        pytest.param(replica("a", blocked=1.0, opened=2.0), Answer.NONE, id="the gate is open by now"),
        pytest.param(replica("a", reserved=1.0), Answer.RESERVED, id="it has quota"),
        pytest.param(replica("a", admitted=1.0), Answer.ADMITTED, id="it is admitted"),
    ],
)
def test_what_a_cluster_answers(found, answer):
    assert found.answer is answer
