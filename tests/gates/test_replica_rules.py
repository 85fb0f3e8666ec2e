"""Deployments and stateful sets that name a queue pass it on to their pods."""

from __future__ import annotations

import pytest
from asking import PRIORITY_CLASS, QUEUE_NAME, labelled, rules, verdict

from headgate.gates.replicas import labels_passed_on
from headgate.model.admission import Admit, Json, Question


def deployment(labels: dict[str, str], of_pods: dict[str, str]) -> Json:
    return labelled("Deployment", {"replicas": 3, "template": {"metadata": {"labels": of_pods}, "spec": {}}}, labels)


@pytest.mark.parametrize(
    "labels, of_pods, become",
    [
        pytest.param({QUEUE_NAME: "q"}, {"app": "a"}, {"app": "a", QUEUE_NAME: "q"}, id="its queue is theirs"),
        pytest.param({QUEUE_NAME: "q"}, {QUEUE_NAME: "x"}, {QUEUE_NAME: "q"}, id="whatever they named before"),
        pytest.param(
            {QUEUE_NAME: "q", PRIORITY_CLASS: "high", "app": "a"},
            {},
            {QUEUE_NAME: "q", PRIORITY_CLASS: "high"},
            id="and its class, and nothing else",
        ),
        pytest.param({PRIORITY_CLASS: "high"}, {"app": "a"}, None, id="without a queue they are left alone"),
    ],
)
def test_what_pods_are_told(labels: dict[str, str], of_pods: dict[str, str], become: dict[str, str] | None) -> None:
    found = verdict(labels_passed_on(Question("team", deployment(labels, of_pods)), rules()))
    assert found == Admit(None if become is None else deployment(labels, become))


def test_where_pods_do_not_wait_nothing_is_passed_on() -> None:
    given = deployment({QUEUE_NAME: "q"}, {})
    assert verdict(labels_passed_on(Question("team", given), rules(frameworks=("batch/job",)))) == Admit()
