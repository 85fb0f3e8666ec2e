"""A queue that asks for what is not built is inactive and says why, as do its workloads, until it no longer asks."""

import pytest
from msgspec.structs import replace
from quota_steps import QuotaSteps, check, flavor, queue, work

from headgate.engine.quota.activity import PROVISIONING
from headgate.model.queues import RequiredCheck

CHECKED = (RequiredCheck("c"),)
TOPOLOGY = "topology-aware scheduling is not supported (topologyName of ResourceFlavor): default"
CONCURRENT = "concurrent admission is not supported (concurrentAdmissionPolicy)"


def not_supported(controller):
    return f"the controllers of AdmissionCheck(s) are not supported: c ({controller})"


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    "objects, reason, text, cure",
    [
        pytest.param(
            (flavor(topology="racks"), queue()), "TopologyNotFound", TOPOLOGY, flavor(), id="a flavor with a topology"
        ),
        pytest.param(
            (queue(concurrent_admission=True),),
            "ConcurrentAdmissionNotSupported",
            CONCURRENT,
            queue(),
            id="concurrent admission",
        ),
        pytest.param(
            (check("c", controller=PROVISIONING), queue(checks=CHECKED)),
            "AdmissionCheckInactive",
            not_supported(PROVISIONING),
            queue(),
            id="provisioning requests, even if the check says it is active",
        ),
    ],
)
def test_a_queue_that_asks_for_what_is_not_built_admits_nobody_and_says_why(objects, reason, text, cure, restarts):
    steps = QuotaSteps(*objects, work("a")).later(1.0)
    if restarts:
        steps.restart().later(1.0)
    (active,) = steps.status(queue().key).conditions
    assert (active.status, active.reason) == ("False", reason)
    assert active.message == f"Can't admit new workloads: {text}."
    assert steps.condition("a", "QuotaReserved") == ("False", "Misconfigured", f"ClusterQueue cq is inactive: {text}")
    steps.see(replace(cure, version="9")).later(1.0)
    assert steps.admitted == ["a"]


def test_a_workload_that_runs_stays_when_its_queue_asks_for_it_later():
    steps = QuotaSteps(queue(), work("a"))
    steps.see(queue(concurrent_admission=True), work("b", created=1.0)).later(1.0)
    assert steps.admitted == ["a"]
    assert steps.reason("b") == ("False", "Misconfigured")
    assert ("b", "Misconfigured") in steps.told


def test_the_workload_itself_is_told_first():
    steps = QuotaSteps(queue(concurrent_admission=True), work("a", annotations={"kueue.x-k8s.io/elastic-job": "true"}))
    assert steps.reason("a") == ("False", "Misconfigured")


@pytest.mark.parametrize("name", ["workload-slice-replacement-for", "workload-allowed-resource-flavors"])
def test_slices_and_variants_that_others_made_are_not_admitted_as_plain_workloads(name):
    steps = QuotaSteps(queue(), work("a", annotations={f"kueue.x-k8s.io/{name}": "b"}))
    assert steps.reason("a") == ("False", "Misconfigured")
    assert ("a", "Misconfigured") in steps.told
    steps.edit("a", annotations={})
    assert steps.admitted == ["a"]
