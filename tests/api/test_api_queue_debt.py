"""What a ClusterQueue shows of its debt: a field of its own, which is not there while nothing is owed."""

import json

import pytest
from builders import amounts

from headgate.api.decode import decode
from headgate.api.install_manifests import queue_definitions
from headgate.api.requests import calls_for
from headgate.api.wire import InvalidObject
from headgate.model.effects import ClusterQueueDebt, PatchStatus
from headgate.model.keys import Key, Kind, Target
from headgate.model.queues import FlavorDebt

QUEUE = Target(Key(Kind.CLUSTER_QUEUE, "", "cq"), "u")
OWED = (FlavorDebt("big", amounts(memory=2048)), FlavorDebt("spot", amounts(1500)))
WRITTEN = [
    {"name": "big", "resources": [{"name": "memory", "total": "2Gi"}]},
    {"name": "spot", "resources": [{"name": "cpu", "total": "1500m"}]},
]


@pytest.mark.parametrize(
    "debt, field",
    [pytest.param(OWED, WRITTEN, id="by flavor and resource"), pytest.param((), None, id="nothing removes the field")],
)
def test_nothing_else_of_the_status_is_written(debt, field):
    (call,) = calls_for(PatchStatus(QUEUE, ClusterQueueDebt(debt)), "headgate")
    assert (call.method, call.path) == ("PATCH", "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/cq/status")
    assert call.content_type == "application/merge-patch+json"
    assert json.loads(call.body) == {"metadata": {"uid": "u"}, "status": {"flavorsDebt": field}}


def queue(**status):
    metadata = {"name": "cq", "uid": "u"}
    return decode(Kind.CLUSTER_QUEUE, json.dumps({"metadata": metadata, "status": status}).encode())


def test_what_is_written_is_what_is_read():
    assert queue(flavorsDebt=WRITTEN).debt == OWED
    assert queue().debt == ()


def test_an_amount_that_is_none_is_an_error_that_says_where():
    wrong = [{"name": "big", "resources": [{"name": "memory", "total": "lots"}]}]
    with pytest.raises(InvalidObject, match=r"status.flavorsDebt\[0\].resources.memory"):
        queue(flavorsDebt=wrong)


def test_the_definition_has_the_field():
    (definition,) = [each for each in queue_definitions() if each["spec"]["names"]["kind"] == "ClusterQueue"]
    for version in definition["spec"]["versions"]:
        status = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
        assert status["flavorsDebt"]["x-kubernetes-list-map-keys"] == ["name"]
