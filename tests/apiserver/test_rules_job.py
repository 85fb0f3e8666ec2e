"""Jobs: what they become, how they find their pods, what may change."""

from __future__ import annotations

import pytest
from rules_builders import (
    container,
    create_errors,
    created,
    job,
    update_errors,
    with_metadata,
    with_spec,
)

from headgate.apiserver import Json

UID = "batch.kubernetes.io/controller-uid"
GENERATED = {"job-name": "it", "batch.kubernetes.io/job-name": "it", "controller-uid": "u1", UID: "u1"}


@pytest.mark.parametrize(
    "given, field, expected",
    [
        pytest.param(job(), "completions", 1, id="one completion"),
        pytest.param(job(), "parallelism", 1, id="one at a time"),
        pytest.param(job(parallelism=3), "completions", None, id="a work queue has no number of completions"),
        pytest.param(job(completions=3), "parallelism", 1, id="many completions, one at a time"),
        pytest.param(job(), "backoffLimit", 6, id="six retries"),
        pytest.param(
            job(backoffLimitPerIndex=1, completionMode="Indexed"), "backoffLimit", 2**31 - 1, id="retries per index"
        ),
        pytest.param(job(), "suspend", False, id="not suspended"),
        pytest.param(job(), "completionMode", "NonIndexed", id="without indexes"),
        pytest.param(job(), "podReplacementPolicy", "TerminatingOrFailed", id="replaces early"),
        pytest.param(job(podFailurePolicy={"rules": []}), "podReplacementPolicy", "Failed", id="replaces late"),
        pytest.param(job(), "selector", {"matchLabels": {UID: "u1"}}, id="it selects by its uid"),
    ],
)
def test_a_new_job_is_completed(given: Json, field: str, expected: object) -> None:
    stored = created(given)
    assert stored["spec"].get(field) == expected
    assert stored["spec"]["template"]["metadata"]["labels"] == GENERATED
    assert created(stored) == stored, "doing it twice changes nothing more"


def test_what_an_old_client_leaves_open_in_the_metadata_of_a_template_is_not_kept() -> None:
    given = job()
    given["spec"]["template"]["metadata"] = {"creationTimestamp": None, "annotations": {}, "labels": {"a": "b"}}
    assert created(given)["spec"]["template"]["metadata"] == {"labels": {**GENERATED, "a": "b"}}


def test_a_job_that_selects_by_hand_is_left_alone() -> None:
    given = job(manualSelector=True, selector={"matchLabels": {"a": "b"}})
    given["spec"]["template"]["metadata"] = {"labels": {"a": "b"}}
    stored = created(given)
    assert stored["spec"]["selector"] == {"matchLabels": {"a": "b"}}
    assert stored["spec"]["template"]["metadata"] == {"labels": {"a": "b"}}
    assert create_errors(given) == []


RESTART = "spec.template.spec.restartPolicy"


@pytest.mark.parametrize(
    "given, expected",
    [
        pytest.param(job(), [], id="a plain job is fine"),
        pytest.param(
            with_metadata(job(), name="a" * 64),
            [f'spec.template.labels: Invalid value: "{"a" * 64}": must be no more than 63 bytes'] * 2,
            id="a name too long for the labels of its pods",
        ),
        pytest.param(
            job({"restartPolicy": "Always"}),
            [f'{RESTART}: Required value: valid values: "OnFailure", "Never"'],
            id="pods that always restart never complete",
        ),
        pytest.param(
            job({"restartPolicy": ""}),
            [f'{RESTART}: Required value: valid values: "OnFailure", "Never"'],
            id="the default of pods is not enough",
        ),
        pytest.param(
            job({"restartPolicy": "OnFailure"}, podFailurePolicy={"rules": []}),
            [f'{RESTART}: Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy is specified'],
            id="a failure policy wants to see failures",
        ),
        pytest.param(
            job(parallelism=-1),
            ["spec.parallelism: Invalid value: -1: must be greater than or equal to 0"],
            id="fewer than none at a time",
        ),
        pytest.param(
            job(completions=-1),
            ["spec.completions: Invalid value: -1: must be greater than or equal to 0"],
            id="fewer than no completions",
        ),
        pytest.param(
            job(backoffLimit=-1),
            ["spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0"],
            id="fewer than no retries",
        ),
        pytest.param(
            job(completionMode="Sorted"),
            ['spec.completionMode: Unsupported value: "Sorted": supported values: "NonIndexed", "Indexed"'],
            id="an unknown completion mode",
        ),
        pytest.param(
            job(completionMode="Indexed", parallelism=2),
            ["spec.completions: Required value: when completion mode is Indexed"],
            id="indexes without an end",
        ),
        pytest.param(
            job(managedBy="me"),
            ['spec.managedBy: Invalid value: "me": must be a domain-prefixed path (such as "acme.io/foo")'],
            id="a manager without a domain",
        ),
        pytest.param(job(managedBy="kueue.x-k8s.io/multikueue"), [], id="a manager with a domain"),
        pytest.param(
            job({"containers": []}),
            ["spec.template.spec.containers: Required value"],
            id="a template without containers",
        ),
        pytest.param(
            job(selector={"matchLabels": {"a": "b"}}),
            [
                'spec.selector: Invalid value: {"matchLabels":{"a":"b","batch.kubernetes.io/controller-uid":"u1"}}: '
                "`selector` not auto-generated",
                'spec.template.metadata.labels: Invalid value: {"batch.kubernetes.io/controller-uid":"u1",'
                '"batch.kubernetes.io/job-name":"it","controller-uid":"u1","job-name":"it"}: '
                "`selector` does not match template `labels`",
            ],
            id="a selector of one's own without saying so",
        ),
    ],
)
def test_what_a_new_job_may_not_be(given: Json, expected: list[str]) -> None:
    assert create_errors(given) == expected


def with_template(value: Json, **fields: object) -> Json:
    template = value["spec"]["template"]
    return with_spec(value, template={**template, "spec": {**template["spec"], **fields}})


AFFINITY = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}}
SUSPENDED = created(job(suspend=True))
STARTED = {**SUSPENDED, "status": {"startTime": "2026-01-01T00:00:00Z"}}
STOPPED = {**STARTED, "status": {**STARTED["status"], "conditions": [{"type": "Suspended", "status": "True"}]}}
RUNNING = created(job())


@pytest.mark.parametrize(
    "old, new, refused",
    [
        pytest.param(RUNNING, with_spec(RUNNING, parallelism=5), "", id="parallelism may change"),
        pytest.param(RUNNING, with_spec(RUNNING, suspend=True), "", id="a job may be suspended"),
        pytest.param(RUNNING, with_metadata(RUNNING, labels={"a": "b"}), "", id="labels may change"),
        pytest.param(RUNNING, with_spec(RUNNING, completions=5), "spec.completions", id="completions may not"),
        pytest.param(
            RUNNING, with_spec(RUNNING, completionMode="Indexed"), "spec.completionMode", id="the mode may not"
        ),
        pytest.param(RUNNING, with_spec(RUNNING, managedBy="a.b/c"), "spec.managedBy", id="the manager may not"),
        pytest.param(
            RUNNING,
            with_template(RUNNING, nodeSelector={"a": "b"}),
            "spec.template",
            id="a running job keeps its template",
        ),
        pytest.param(
            SUSPENDED,
            with_template(SUSPENDED, nodeSelector={"a": "b"}, affinity=AFFINITY, tolerations=[{"operator": "Exists"}]),
            "",
            id="a suspended job may be sent elsewhere",
        ),
        pytest.param(
            SUSPENDED,
            with_template(SUSPENDED, containers=[container(resources={"requests": {"cpu": "1"}})]),
            "",
            id="a suspended job may ask for other resources",
        ),
        pytest.param(
            SUSPENDED,
            with_template(SUSPENDED, containers=[container(image="new")]),
            "spec.template.spec",
            id="a suspended job keeps its images",
        ),
        pytest.param(
            STARTED,
            with_template(STARTED, nodeSelector={"a": "b"}),
            "spec.template",
            id="a job with pods left stays put",
        ),
        pytest.param(
            STOPPED,
            with_template(STOPPED, nodeSelector={"a": "b"}),
            "",
            id="a job that came to rest may be sent elsewhere",
        ),
    ],
)
def test_what_may_change_about_a_job(old: Json, new: Json, refused: str) -> None:
    errors = update_errors(new, old)
    assert [error.partition(":")[0] for error in errors] == ([refused] if refused else [])
    assert all(error.endswith(": field is immutable") for error in errors)


def test_an_indexed_job_is_scaled_in_both_numbers() -> None:
    old = created(job(completionMode="Indexed", completions=3, parallelism=3))
    assert update_errors(with_spec(old, completions=5, parallelism=5), old) == []
    assert update_errors(with_spec(old, completions=5), old) == [
        "spec.completions: Invalid value: 5: can only be modified in tandem with spec.parallelism"
    ]
