"""What a pod effectively requests of a node."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.api.decode import decode
from headgate.model.keys import Kind
from headgate.model.pod import PodShape

MI = 1024 * 1024


def asks(sidecar=False, **requests):
    container = {"name": "c", "resources": {"requests": requests}}
    return container | ({"restartPolicy": "Always"} if sidecar else {})


def shape(*containers, **spec) -> PodShape:
    manifest = {"metadata": {"name": "p", "namespace": "d"}, "spec": {"containers": list(containers), **spec}}
    pod = decode(Kind.POD, json.dumps(manifest).encode())
    return pod.shape


@pytest.mark.parametrize(
    "found, requests",
    [
        pytest.param(shape({"name": "c"}), {}, id="a container that asks for nothing"),
        pytest.param(shape(asks(cpu="250m", memory="1Gi")), {"cpu": 250, "memory": 1024 * MI}, id="cpu in thousandths"),
        pytest.param(shape(asks(cpu=2, memory=1.5)), {"cpu": 2000, "memory": 2}, id="bare numbers, rounded up"),
        pytest.param(shape(asks(cpu="1u")), {"cpu": 1}, id="a sliver of cpu is a thousandth"),
        pytest.param(shape(asks(cpu="0", memory="0")), {}, id="asking for zero is asking for nothing"),
        pytest.param(shape(asks(cpu="1"), asks(cpu="2")), {"cpu": 3000}, id="containers add up"),
        pytest.param(shape(asks(cpu="1"), initContainers=[asks(cpu="5")]), {"cpu": 5000}, id="a larger init container"),
        pytest.param(
            shape(asks(cpu="4"), initContainers=[asks(cpu="3")]), {"cpu": 4000}, id="a smaller init container"
        ),
        pytest.param(
            shape(asks(cpu="1"), initContainers=[asks(cpu="2"), asks(cpu="3")]),
            {"cpu": 3000},
            id="init containers run one after the other",
        ),
        pytest.param(
            shape(asks(cpu="1"), initContainers=[asks(sidecar=True, cpu="2")]), {"cpu": 3000}, id="a sidecar adds up"
        ),
        pytest.param(
            shape(asks(cpu="1"), initContainers=[asks(sidecar=True, cpu="2"), asks(cpu="4")]),
            {"cpu": 6000},
            id="an init container runs beside the sidecars before it",
        ),
        pytest.param(
            shape(asks(cpu="1"), initContainers=[asks(cpu="4"), asks(sidecar=True, cpu="2")]),
            {"cpu": 4000},
            id="but not beside those after it",
        ),
        pytest.param(
            shape(asks(cpu="1"), initContainers=[asks(memory="8")]), {"cpu": 1000, "memory": 8}, id="name by name"
        ),
        pytest.param(
            shape(asks(cpu="1"), initContainers=[asks(cpu="5")], overhead={"cpu": "250m", "memory": "1"}),
            {"cpu": 5250, "memory": 1},
            id="overhead comes on top",
        ),
        pytest.param(
            shape(asks(cpu="1", memory="7"), resources={"requests": {"cpu": "9"}}, overhead={"cpu": "1"}),
            {"cpu": 10_000, "memory": 7},
            id="the pod's own request replaces that of its containers",
        ),
        pytest.param(
            shape(
                asks(**{"example.com/gpu": "1"}),
                resources={"requests": {"example.com/gpu": "9", "hugepages-2Mi": "2Mi"}},
            ),
            {"example.com/gpu": 1, "hugepages-2Mi": 2 * MI},
            id="a pod itself may ask for cpu, memory and huge pages only",
        ),
        pytest.param(
            shape({"name": "c", "resources": {"limits": {"cpu": "1"}}}),
            {},
            id="a limit is no request once it is stored",
        ),
    ],
)
def test_requests(found, requests):
    assert dict(found.requests) == requests


@pytest.mark.parametrize(
    "found, scored",
    [
        pytest.param(shape(asks(cpu="1", memory="1Mi")), {"cpu": 1000, "memory": MI}, id="what is asked for is scored"),
        pytest.param(shape({"name": "c"}), {"cpu": 100, "memory": 200 * MI}, id="silence counts a little"),
        pytest.param(
            shape({"name": "c"}, asks(cpu="1")),
            {"cpu": 1100, "memory": 400 * MI},
            id="the silence of every container counts",
        ),
        pytest.param(shape(asks(cpu="0", memory="0")), {"cpu": 0, "memory": 0}, id="an explicit zero is no silence"),
        pytest.param(
            shape(asks(cpu="1", memory="1"), initContainers=[{"name": "i"}]),
            {"cpu": 1000, "memory": 200 * MI},
            id="silent init containers count at their step",
        ),
        pytest.param(
            shape(asks(memory="1Mi", **{"example.com/gpu": "2"})),
            {"cpu": 100, "memory": MI, "example.com/gpu": 2},
            id="other resources are as requested",
        ),
        pytest.param(
            shape({"name": "c"}, asks(memory="1Mi"), resources={"requests": {"cpu": "2"}}),
            {"cpu": 2000, "memory": MI},
            id="where the pod speaks for itself, only what nobody asks for is filled in",
        ),
        pytest.param(
            shape({"name": "c"}, resources={"requests": {"cpu": "2"}}, overhead={"cpu": "1"}),
            {"cpu": 3000, "memory": 200 * MI},
            id="overhead is scored",
        ),
    ],
)
def test_scored_requests(found, scored):
    assert {name: found.scored_requests[name] for name in scored} == scored
    assert {name for name, _ in found.scored_requests} <= set(scored)


amounts = st.integers(0, 5)
steps = st.lists(st.tuples(amounts, st.booleans()), max_size=5)


@given(st.lists(amounts, min_size=1, max_size=3), steps)
def test_requests_are_the_most_that_ever_runs_at_once(containers, starting):
    found = shape(
        *(asks(cpu=str(amount)) for amount in containers),
        initContainers=[asks(sidecar=is_sidecar, cpu=str(amount)) for amount, is_sidecar in starting],
    )
    before = [
        sum(amount for amount, is_sidecar in starting[:index] if is_sidecar) for index in range(len(starting) + 1)
    ]
    at_steps = [amount + beside for (amount, _), beside in zip(starting, before, strict=False)]
    assert found.requests["cpu"] == 1000 * max([sum(containers) + before[-1], *at_steps])
