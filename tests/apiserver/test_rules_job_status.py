"""What may be reported about a Job: counts that add up, and one end that was decided before."""

from __future__ import annotations

import pytest
from rules_builders import created, job, status_errors, with_spec

from headgate.apiserver import Json

RUNNING = created(job())
START, END, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"


def conditions(*types: str) -> list[Json]:
    return [{"type": kind, "status": "True"} for kind in types]


COMPLETE = {
    "startTime": START,
    "completionTime": END,
    "succeeded": 1,
    "conditions": conditions("SuccessCriteriaMet", "Complete"),
}
FAILED = {"startTime": START, "conditions": conditions("FailureTarget", "Failed")}
NEEDS = "status.conditions: Invalid value: cannot set {}=True condition without the {}=true condition"
NOT_BOTH = "status.conditions: Invalid value: cannot set {}=True and {}=true conditions"
NO_END = (
    f'status.completionTime: Invalid value: "{END}": cannot set completionTime when there is no Complete=True condition'
)


@pytest.mark.parametrize(
    "before, status, expected",
    [
        pytest.param({}, {"active": 1, "ready": 1}, [], id="a report"),
        pytest.param(
            {},
            {"active": 1, "ready": 2},
            ["status.ready: Invalid value: 2: cannot set more ready pods than active"],
            id="more ready than active",
        ),
        pytest.param(
            {"failed": 2},
            {"failed": 1},
            ["status.failed: Invalid value: 1: cannot decrease the failed counter"],
            id="failures are not forgotten",
        ),
        pytest.param(
            {"succeeded": 2},
            {"succeeded": 1},
            ["status.succeeded: Invalid value: 1: cannot decrease the succeeded counter"],
            id="successes are not forgotten",
        ),
        pytest.param(
            {},
            {"failed": -1},
            [
                "status.failed: Invalid value: -1: must be greater than or equal to 0",
                "status.failed: Invalid value: -1: cannot decrease the failed counter",
            ],
            id="fewer failures than none",
        ),
        pytest.param({}, COMPLETE, [], id="a success"),
        pytest.param({}, FAILED, [], id="a failure"),
        pytest.param(
            COMPLETE,
            {**COMPLETE, "conditions": []},
            [
                NO_END,
                "status.conditions: Invalid value: cannot disable the terminal Complete=True condition",
                "status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
            ],
            id="an end is an end",
        ),
        pytest.param(
            {},
            {"conditions": conditions("Complete")},
            [
                "status.completionTime: Required value: completionTime is required for Complete jobs",
                NEEDS.format("Complete", "SuccessCriteriaMet"),
                "status.startTime: Required value: startTime is required for finished job",
            ],
            id="a success out of nothing",
        ),
        pytest.param(
            {},
            {"startTime": START, "conditions": conditions("Failed")},
            [NEEDS.format("Failed", "FailureTarget")],
            id="a failure is decided before it happens",
        ),
        pytest.param(
            {},
            {**COMPLETE, "conditions": conditions("SuccessCriteriaMet", "Complete", "FailureTarget", "Failed")},
            [
                NOT_BOTH.format("Complete", "Failed"),
                NOT_BOTH.format("Complete", "FailureTarget"),
                NOT_BOTH.format("SuccessCriteriaMet", "Failed"),
                NOT_BOTH.format("SuccessCriteriaMet", "FailureTarget"),
            ],
            id="no success and failure at once",
        ),
        pytest.param(
            {}, {"startTime": START, "completionTime": END}, [NO_END], id="a time of an end that is not there"
        ),
        pytest.param(
            {},
            {**COMPLETE, "startTime": LATER},
            [f'status.completionTime: Invalid value: "{END}": must be equal to or after `startTime`'],
            id="an end before the beginning",
        ),
        pytest.param(
            COMPLETE,
            {**COMPLETE, "completionTime": LATER},
            [f'status.completionTime: Invalid value: "{LATER}": field is immutable'],
            id="the end stays when it was",
        ),
        pytest.param(
            {"startTime": START},
            {"startTime": None},
            ["status.startTime: Invalid value: null: field is immutable"],
            id="the beginning stays when it was",
        ),
        pytest.param(
            {},
            {"completedIndexes": "0", "failedIndexes": "1"},
            [
                'status.completedIndexes: Invalid value: "0": '
                "cannot set non-empty completedIndexes when non-indexed completion mode",
                'status.failedIndexes: Invalid value: "1": '
                "cannot set non-null failedIndexes when backoffLimitPerIndex is null",
            ],
            id="indexes of a job without",
        ),
        pytest.param(
            {},
            {**COMPLETE, "active": 1, "terminating": 1, "uncountedTerminatedPods": {"failed": ["u"]}},
            [
                "status.active: Invalid value: 1: active>0 is invalid for finished job",
                'status.uncountedTerminatedPods: Invalid value: {"failed":["u"]}: must be empty for finished job',
                "status.terminating: Invalid value: 1: terminating>0 is invalid for finished job",
            ],
            id="a finished job has no pods left",
        ),
    ],
)
def test_what_may_be_reported_about_a_job(before: Json, status: Json, expected: list[str]) -> None:
    assert status_errors(status, {**RUNNING, "status": before}) == expected


def test_a_suspended_job_may_begin_anew() -> None:
    old = {**with_spec(RUNNING, suspend=True), "status": {"startTime": START}}
    assert status_errors({"startTime": None}, old) == []
