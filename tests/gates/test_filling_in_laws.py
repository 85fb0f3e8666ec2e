"""Laws of filling in: doing it again changes nothing, and what is filled in is never what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
from hypothesis import given
from hypothesis import strategies as st

from headgate.gates.fields import AdmissionFieldError
from headgate.gates.jobs import job_errors, suspended_if_managed
from headgate.gates.pods import gated_if_managed, pod_errors
from headgate.model.admission import AdmissionAllowed, AdmissionHandler, AdmissionRequest, Json
from headgate.model.objects import Object

NAMES = st.sampled_from(["", "q", "Not A Name"])
LABELS = st.dictionaries(st.sampled_from([QUEUE_NAME, PRIORITY_CLASS, "app"]), NAMES)
ANNOTATIONS = st.dictionaries(
    st.sampled_from(["kueue.x-k8s.io/pod-group-total-count", "kueue.x-k8s.io/job-min-parallelism"]),
    st.sampled_from(["0", "2", "x"]),
)
GATES = st.lists(st.sampled_from([{"name": "mine"}, {"name": "kueue.x-k8s.io/admission"}]), max_size=2, unique_by=str)
SPECS = st.fixed_dictionaries(
    {}, optional={"suspend": st.booleans(), "parallelism": st.integers(0, 4), "schedulingGates": GATES}
)
WORLDS = st.sets(st.sampled_from(["namespace", "queue", "class"])).map(
    lambda chosen: [
        one
        for name, one in (("namespace", namespace()), ("queue", local_queue()), ("class", workload_class()))
        if name in chosen
    ]
)


def filled_in(handler: AdmissionHandler, value: Json, world: list[Object], manages_all: bool) -> Json:
    found = response_of(handler(AdmissionRequest("team", value), webhook_settings(manages_all=manages_all)), world)
    assert isinstance(found, AdmissionAllowed)
    return value if found.changed is None else found.changed


KINDS: st.SearchStrategy[tuple[AdmissionHandler, Callable[[Json], list[AdmissionFieldError]]]] = st.sampled_from(
    [(suspended_if_managed, job_errors), (gated_if_managed, pod_errors)]
)


@given(KINDS, LABELS, ANNOTATIONS, SPECS, WORLDS, st.booleans())
def test_filling_in(
    kind: tuple[AdmissionHandler, Callable[[Json], list[AdmissionFieldError]]],
    labels: dict[str, str],
    annotations: dict[str, str],
    spec: dict[str, Any],
    world: list[Object],
    manages_all: bool,
) -> None:
    handler, errors = kind
    given_ = labelled("Work", spec, labels, annotations)
    memoize = filled_in(handler, given_, world, manages_all)
    assert filled_in(handler, memoize, world, manages_all) == memoize
    before, after = ([str(error) for error in errors(value)] for value in (given_, memoize))
    assert [error for error in after if error not in before] == []
