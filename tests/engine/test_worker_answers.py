"""`headgate explain workload` at home says what each worker cluster answers."""

from __future__ import annotations

import pytest

from headgate.engine.explain.workload import worker_answers
from headgate.model.keys import Condition, Key, Kind
from headgate.model.kueue_names import MULTIKUEUE, OPENED_GATE
from headgate.model.queues import (
    GateStatus,
    MultiKueueCluster,
    PreemptionProposal,
    QueuedWorkload,
    QueuedWorkloadStatus,
)

NOW = 1000.0
KEY = Key(Kind.KUEUE_WORKLOAD, "team", "it")
GATED = (GateStatus(MULTIKUEUE, False, 0.0),)
PRICE = PreemptionProposal(True, victims=2, highest_priority=7, priority_sum=9, pods=3, running_since=960.0)


def home(*nominated: str, cluster: str = "", **fields: object) -> QueuedWorkload:
    status = QueuedWorkloadStatus(nominated_clusters=nominated, cluster=cluster)
    return QueuedWorkload(KEY, "u", "1", 0.0, (), status=status, **fields)


def clone(*conditions: Condition, **status: object) -> QueuedWorkload:
    shown = QueuedWorkloadStatus(conditions=conditions, **status)
    return QueuedWorkload(KEY, "r", "1", 0.0, (), preemption_gates=(MULTIKUEUE,), status=shown)


def worker(status: str, reason: str = "Active", message: str = "") -> MultiKueueCluster:
    key = Key(Kind.MULTIKUEUE_CLUSTER, "", "w")
    return MultiKueueCluster(key, "u", "1", "s", conditions=(Condition("Active", status, reason, message, 0.0),))


def says(type_: str, status: str, reason: str = "R", message: str = "") -> Condition:
    return Condition(type_, status, reason, message, 10.0)


BLOCKED = (says("QuotaReserved", "False", "WaitingForQuota"), says("PreemptionBlocked", "True", "PreemptionGated"))


@pytest.mark.parametrize(
    "there, answer, why",
    [
        pytest.param(clone(says("Admitted", "True")), "admitted", "", id="it runs there"),
        pytest.param(
            clone(says("QuotaReserved", "True")), "has quota", "waits for its admission checks", id="it has quota"
        ),
        pytest.param(
            clone(*BLOCKED, gate_statuses=GATED, proposal=PRICE),
            "needs preemption",
            "its gate is closed; would evict 2 workloads of priority up to 7, 2m of pod work",
            id="it would have to preempt, and says at what price",
        ),
        pytest.param(clone(*BLOCKED, gate_statuses=GATED), "needs preemption", "its gate is closed", id="no price"),
        pytest.param(
            clone(says("QuotaReserved", "False", "WaitingForQuota", "4 cpu are missing")),
            "no quota",
            "4 cpu are missing",
            id="it is refused",
        ),
        pytest.param(clone(), "not considered yet", "", id="nobody has looked at it"),
        pytest.param(
            clone(
                says("QuotaReserved", "False", "WaitingForPreemptedWorkloads", "preempting 2"),
                gate_statuses=(GateStatus(MULTIKUEUE, True, 9.0),),
            ),
            "preempting",
            "preempting 2",
            id="its gate is open",
        ),
    ],
)
def test_a_clone_that_can_be_read_gives_the_answer(there, answer, why):
    [told] = worker_answers(home("w"), {"w": worker("True")}, {"w": there}, NOW)
    assert (told.cluster, told.answer, told.why) == ("w", answer, why)


@pytest.mark.parametrize(
    "at_home, clusters, answer, why",
    [
        pytest.param(
            home("w"), {"w": worker("True")}, "dispatched", "its answer cannot be read from here", id="unknown"
        ),
        pytest.param(home("w"), {}, "dispatched", "its answer cannot be read from here", id="without any rights"),
        pytest.param(
            home("w"),
            {"w": worker("False", "ClientConnectionFailed", "refused")},
            "not connected",
            "ClientConnectionFailed: refused",
            id="lost",
        ),
        pytest.param(home(cluster="w"), {"w": worker("True")}, "admitted", "", id="it was chosen"),
        pytest.param(
            home("w", annotations={OPENED_GATE: "w@910"}),
            {},
            "dispatched",
            "allowed to preempt 90s ago; its answer cannot be read from here",
            id="its gate was opened",
        ),
    ],
)
def test_otherwise_home_says_what_it_knows(at_home, clusters, answer, why):
    [told] = worker_answers(at_home, clusters, {}, NOW)
    assert (told.answer, told.why) == (answer, why)


def test_clusters_come_in_the_order_of_nomination_and_nobody_else_is_named():
    told = worker_answers(home("b", "a"), {"c": worker("True")}, {}, NOW)
    assert [one.cluster for one in told] == ["b", "a"]
    assert worker_answers(home(), {"c": worker("True")}, {}, NOW) == ()
