"""Which jobs must wait for quota, what they then get, and what may not be said about them."""

from __future__ import annotations

from typing import Any

import pytest
from handling import (
    PRIORITY_CLASS,
    QUEUE_NAME,
    labelled,
    local_queue,
    namespace,
    response_of,
    webhook_settings,
    workload_class,
)
from msgspec.structs import replace

from headgate.gates.jobs import job_errors, suspended_if_managed
from headgate.model.admission import AdmissionAllowed, AdmissionRequest, Json
from headgate.model.keys import Key, Kind
from headgate.model.objects import Object
from headgate.model.queues import AdmissionCheck, ClusterQueue, RequiredCheck
from headgate.model.selectors import Operator, Requirement

LABELS, ANNOTATIONS = "metadata.labels", "metadata.annotations"
FEWEST = "kueue.x-k8s.io/job-min-parallelism"
ELASTIC = "kueue.x-k8s.io/elastic-job"
EQUAL = "kueue.x-k8s.io/job-completions-equal-parallelism"
SECONDS = "kueue.x-k8s.io/max-exec-time-seconds"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
GATED_BY = "kueue.x-k8s.io/admission-gated-by"


def job(labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, **spec: Any) -> Json:
    return labelled("Job", {"parallelism": 3, "template": {}, **spec}, labels or {}, annotations)


def waiting(labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, **spec: Any) -> Json:
    return job(labels, annotations, suspend=True, **spec)


ONLY_BATCH = (Requirement("batch", Operator.IN, ("yes",)),)


@pytest.mark.parametrize(
    "given, world, settings, becomes",
    [
        pytest.param(
            job({QUEUE_NAME: "q"}), [namespace()], {}, waiting({QUEUE_NAME: "q"}), id="one that names a queue waits"
        ),
        pytest.param(
            waiting({QUEUE_NAME: "q"}), [namespace()], {}, waiting({QUEUE_NAME: "q"}), id="one that waits already stays"
        ),
        pytest.param(job(), [namespace()], {}, None, id="one that names none is left alone"),
        pytest.param(
            job(), [namespace()], {"manages_all": True}, waiting(), id="unless jobs without a queue wait as well"
        ),
        pytest.param(
            job(),
            [namespace(), local_queue()],
            {},
            waiting({QUEUE_NAME: "default"}),
            id="it gets the queue default where there is one",
        ),
        pytest.param(
            job(), [namespace(), local_queue(where="other")], {}, None, id="but not that of another namespace"
        ),
        pytest.param(
            job({QUEUE_NAME: "q"}),
            [namespace(), local_queue()],
            {},
            waiting({QUEUE_NAME: "q"}),
            id="it keeps the queue it names",
        ),
        pytest.param(
            job({QUEUE_NAME: "q"}),
            [namespace(), workload_class()],
            {},
            waiting({QUEUE_NAME: "q", PRIORITY_CLASS: "default"}),
            id="it gets the class default where there is one",
        ),
        pytest.param(
            job({QUEUE_NAME: "q", PRIORITY_CLASS: "high"}),
            [namespace(), workload_class()],
            {},
            waiting({QUEUE_NAME: "q", PRIORITY_CLASS: "high"}),
            id="it keeps the class it names",
        ),
        pytest.param(job(), [namespace(), workload_class()], {}, None, id="who does not wait gets no class"),
        pytest.param(
            job({QUEUE_NAME: "q"}),
            [namespace()],
            {"namespaces": ONLY_BATCH},
            None,
            id="none waits in a namespace that is not chosen",
        ),
        pytest.param(
            job({QUEUE_NAME: "q"}),
            [namespace(batch="yes")],
            {"namespaces": ONLY_BATCH},
            waiting({QUEUE_NAME: "q"}),
            id="it does in one that is",
        ),
        pytest.param(
            job({QUEUE_NAME: "q"}), [namespace()], {"frameworks": ("pod",)}, None, id="none waits where jobs are off"
        ),
        pytest.param(
            job({QUEUE_NAME: "q"}, managedBy="kueue.x-k8s.io/multikueue"),
            [namespace()],
            {},
            waiting({QUEUE_NAME: "q"}, managedBy="kueue.x-k8s.io/multikueue"),
            id="who manages it is not touched",
        ),
    ],
)
def test_a_new_job(given: Json, world: list[Object], settings: dict[str, Any], becomes: Json | None) -> None:
    handling = suspended_if_managed(AdmissionRequest("team", given), webhook_settings(**settings))
    assert response_of(handling, world) == AdmissionAllowed(becomes)


MULTIKUEUE = "kueue.x-k8s.io/multikueue"


def dispatching(controller: str = MULTIKUEUE, where: str = "team") -> list[Object]:
    """A queue whose check is run by that controller."""
    queue = ClusterQueue(Key(Kind.CLUSTER_QUEUE, "", "cq"), "u", "1", checks=(RequiredCheck("fleet"),))
    check = AdmissionCheck(Key(Kind.ADMISSION_CHECK, "", "fleet"), "u", "1", controller)
    return [namespace(), local_queue("q", where), queue, check]


@pytest.mark.parametrize(
    "given, world, dispatches, managed_by",
    [
        pytest.param({}, dispatching(), True, MULTIKUEUE, id="a queue that dispatches to worker clusters"),
        pytest.param(
            {"managedBy": "kubernetes.io/job-controller"}, dispatching(), True, MULTIKUEUE, id="said to be run here"
        ),
        pytest.param({"managedBy": "example.com/x"}, dispatching(), True, "example.com/x", id="somebody else's"),
        pytest.param({}, dispatching("example.com/x"), True, None, id="a queue with another check"),
        pytest.param({}, dispatching(where="other"), True, None, id="a queue of another namespace"),
        pytest.param({}, [namespace()], True, None, id="no such queue"),
        pytest.param({}, dispatching(), False, None, id="a process that dispatches nothing"),
    ],
)
def test_who_is_to_run_a_new_job(given: Json, world: list[Object], dispatches: bool, managed_by: str | None) -> None:
    settings = replace(webhook_settings(), dispatches=dispatches)
    answered = response_of(
        suspended_if_managed(AdmissionRequest("team", job({QUEUE_NAME: "q"}, **given)), settings), world
    )
    assert isinstance(answered, AdmissionAllowed)
    assert answered.changed is not None
    assert answered.changed["spec"].get("managedBy") == managed_by


NAME = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


@pytest.mark.parametrize(
    "given, errors",
    [
        pytest.param(job({QUEUE_NAME: "team.gpu"}, {FEWEST: "2", GATED_BY: "example.com/x"}), [], id="nothing wrong"),
        pytest.param(
            job({QUEUE_NAME: "Gpu!"}),
            [f'{LABELS}[{QUEUE_NAME}]: Invalid value: "Gpu!": {NAME}'],
            id="a queue that no queue can be called",
        ),
        pytest.param(
            job({PREBUILT: "A"}), [f'{LABELS}[{PREBUILT}]: Invalid value: "A": {NAME}'], id="a workload likewise"
        ),
        pytest.param(
            job({SECONDS: "0"}),
            [f"{LABELS}[{SECONDS}]: Invalid value: 0: should be greater than 0"],
            id="no time to run",
        ),
        pytest.param(
            job({SECONDS: "1h"}), [f'{LABELS}[{SECONDS}]: Invalid value: "1h": must be a whole number'], id="no seconds"
        ),
        pytest.param(
            job(annotations={FEWEST: "3"}),
            [f"{ANNOTATIONS}[{FEWEST}]: Invalid value: 3: should be between 0 and 2"],
            id="at least as many pods as all",
        ),
        pytest.param(
            job(annotations={FEWEST: "2"}, completions=2),
            [f"{ANNOTATIONS}[{FEWEST}]: Invalid value: 2: should be between 0 and 1"],
            id="of fewer completions than parallelism",
        ),
        pytest.param(
            job(annotations={FEWEST: "few"}),
            [f'{ANNOTATIONS}[{FEWEST}]: Invalid value: "few": must be a whole number'],
            id="a number that is none",
        ),
        pytest.param(
            job(annotations={EQUAL: "true"}, completions=3),
            [f'{ANNOTATIONS}[{EQUAL}]: Invalid value: "true": should not be enabled for NonIndexed jobs'],
            id="completions follow in a job without indexes",
        ),
        pytest.param(
            job(annotations={EQUAL: "true"}, completions=2, completionMode="Indexed"),
            [f"spec.completions: Invalid value: 2: should be equal to parallelism while {EQUAL} is true"],
            id="completions follow and are not equal",
        ),
        pytest.param(
            job(annotations={EQUAL: "ja"}),
            [f'{ANNOTATIONS}[{EQUAL}]: Invalid value: "ja": must be true or false'],
            id="neither true nor false",
        ),
        pytest.param(job(annotations={EQUAL: "false"}), [], id="completions that do not follow"),
        pytest.param(
            job(annotations={GATED_BY: "x"}),
            [
                f'{ANNOTATIONS}[{GATED_BY}]: Invalid value: "x": must be a domain, a slash and a path, such as '
                "example.com/mygate"
            ],
            id="gated by nobody one could name",
        ),
    ],
)
def test_what_is_wrong_with_a_job(given: Json, errors: list[str]) -> None:
    assert [str(error) for error in job_errors(given)] == errors


FIXED = "field is immutable"


@pytest.mark.parametrize(
    "new, old, errors",
    [
        pytest.param(
            waiting({QUEUE_NAME: "b"}), waiting({QUEUE_NAME: "a"}), [], id="while it waits it may change queue"
        ),
        pytest.param(
            job({QUEUE_NAME: "b"}),
            job({QUEUE_NAME: "a"}),
            [f'{LABELS}[{QUEUE_NAME}]: Invalid value: "b": {FIXED}'],
            id="while it runs it may not",
        ),
        pytest.param(
            job({QUEUE_NAME: "b"}),
            waiting({QUEUE_NAME: "a"}),
            [f'{LABELS}[{QUEUE_NAME}]: Invalid value: "b": {FIXED}'],
            id="nor when it starts",
        ),
        pytest.param(waiting({QUEUE_NAME: "b"}), job({QUEUE_NAME: "a"}), [], id="when it stops it may"),
        pytest.param(
            job(), job({QUEUE_NAME: "a"}), [f'{LABELS}[{QUEUE_NAME}]: Invalid value: "": {FIXED}'], id="nor leave it"
        ),
        pytest.param(
            waiting({PRIORITY_CLASS: "b"}), waiting({PRIORITY_CLASS: "a"}), [], id="one class for another, waiting"
        ),
        pytest.param(job({PRIORITY_CLASS: "b"}), job({PRIORITY_CLASS: "a"}), [], id="one class for another, running"),
        pytest.param(waiting({PRIORITY_CLASS: "b"}), waiting(), [], id="a class for one that waits"),
        pytest.param(
            job({PRIORITY_CLASS: "b"}),
            job(),
            [
                f'{LABELS}[{PRIORITY_CLASS}]: Invalid value: "b": '
                "WorkloadPriorityClass cannot be added to a non-suspended workload"
            ],
            id="no class for one that runs",
        ),
        pytest.param(
            waiting(),
            waiting({PRIORITY_CLASS: "a"}),
            [f'{LABELS}[{PRIORITY_CLASS}]: Invalid value: "": WorkloadPriorityClass cannot be removed from a workload'],
            id="no class is taken away",
        ),
        pytest.param(waiting({SECONDS: "9"}), waiting({SECONDS: "5"}), [], id="another time to run while it waits"),
        pytest.param(
            waiting({SECONDS: "9"}),
            job({SECONDS: "5"}),
            [f'{LABELS}[{SECONDS}]: Invalid value: "9": {FIXED}'],
            id="not when it only just stops",
        ),
        pytest.param(
            waiting({PREBUILT: "b"}),
            waiting({PREBUILT: "a"}),
            [f'{LABELS}[{PREBUILT}]: Invalid value: "b": {FIXED}'],
            id="never another workload",
        ),
        pytest.param(
            job(annotations={FEWEST: "1"}, parallelism=2),
            job(annotations={FEWEST: "1"}),
            [
                "spec.parallelism: Forbidden: cannot change when partial admission is enabled and the job is not "
                "suspended"
            ],
            id="no other number of pods while it runs in part",
        ),
        pytest.param(
            job(annotations={FEWEST: "2"}, parallelism=2),
            waiting(annotations={FEWEST: "2"}),
            [],
            id="it starts in part, with as few as are named",
        ),
        pytest.param(
            job(annotations={EQUAL: "true"}, completions=3, completionMode="Indexed"),
            job(completions=3, completionMode="Indexed"),
            [f"{ANNOTATIONS}[{EQUAL}]: Forbidden: field is immutable while the job is not suspended"],
            id="completions do not begin to follow while it runs",
        ),
        pytest.param(
            job(annotations={ELASTIC: "true"}),
            job(),
            [f"{ANNOTATIONS}[{ELASTIC}]: Forbidden: field is immutable while the job is not suspended"],
            id="it does not begin to be elastic while it runs",
        ),
        pytest.param(waiting(annotations={ELASTIC: "true"}), waiting(), [], id="it may become elastic while it waits"),
        pytest.param(
            waiting(annotations={GATED_BY: "a.io/x,b.io/y"}),
            waiting(annotations={GATED_BY: "a.io/x"}),
            [f'{ANNOTATIONS}[{GATED_BY}]: Invalid value: "b.io/y": may not be added to an existing workload'],
            id="nobody new gates it",
        ),
        pytest.param(waiting(), waiting(annotations={GATED_BY: "a.io/x"}), [], id="who gates it may let go"),
    ],
)
def test_how_a_job_may_change(new: Json, old: Json, errors: list[str]) -> None:
    assert [str(error) for error in job_errors(new, old)] == errors
