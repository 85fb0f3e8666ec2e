"""Resources of a pod as a whole: what is left unsaid about them."""

from __future__ import annotations

import pytest
from rules_builders import container, created, pod

from headgate.apiserver import Json


def asking(name: str = "main", **resources: Json) -> Json:
    return container(name, resources=resources)


CPU, HUGE = {"cpu": "1"}, {"hugepages-2Mi": "2Mi"}


@pytest.mark.parametrize(
    "resources, containers, expected",
    [
        pytest.param({"limits": CPU}, [container()], {"limits": CPU, "requests": CPU}, id="it asks for its limits"),
        pytest.param(
            {"limits": {"cpu": "4"}},
            [asking(requests={**CPU, "memory": "1Gi"}), asking("b", limits={"memory": "1Gi"})],
            {"limits": {"cpu": "4"}, "requests": {"cpu": "1", "memory": "2Gi"}},
            id="it asks for what its containers ask for",
        ),
        pytest.param(
            {"limits": CPU},
            [asking(limits=HUGE)],
            {"limits": CPU | HUGE, "requests": CPU | HUGE},
            id="huge pages are limited to those of its containers",
        ),
        pytest.param(
            {"requests": CPU}, [asking(requests=HUGE)], {"requests": CPU}, id="without limits nothing is added"
        ),
    ],
)
def test_resources_of_the_pod_as_a_whole(resources: Json, containers: list[Json], expected: Json) -> None:
    stored = created(pod(resources=resources, containers=containers))
    assert stored["spec"]["resources"] == expected
    assert created(stored) == stored, "doing it twice changes nothing more"
