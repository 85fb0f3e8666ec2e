"""What an admission webhook must refuse about queues and flavors, field by field."""

from __future__ import annotations

from typing import Any

import pytest
from builders import tolerating

from headgate.gates.queues import cluster_queue_errors, cohort_errors, flavor_errors
from headgate.model.keys import Key, Kind
from headgate.model.node import Taint, TaintEffect
from headgate.model.queues import (
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    Quota,
    RequiredCheck,
    ResourceFlavor,
    ResourceGroup,
)

NOT_BELOW_ZERO = "must be greater than or equal to 0"
GROUP = "spec.resourceGroups[0]"
RESOURCE = f"{GROUP}.flavors[0].resources[0]"
NAME_PART = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)

FOUR = Quota(4)


def group(*resources: str, flavors: tuple[str, ...] = ("spot",), quota: Quota = FOUR) -> ResourceGroup:
    """Every flavor has the same quota of every resource; cpu when none is named."""
    names = resources or ("cpu",)
    quotas = tuple((name, quota) for name in names)
    return ResourceGroup(names, tuple(FlavorQuotas(flavor, quotas) for flavor in flavors))


def queue(*groups: ResourceGroup, **fields: Any) -> ClusterQueue:
    return ClusterQueue(Key(Kind.CLUSTER_QUEUE, "", "cq"), "u", "1", groups, **fields)


def cohort(*groups: ResourceGroup, **fields: Any) -> Cohort:
    return Cohort(Key(Kind.COHORT, "", "co"), "u", "1", groups=groups, **fields)


def flavor(**fields: Any) -> ResourceFlavor:
    return ResourceFlavor(Key(Kind.RESOURCE_FLAVOR, "", "spot"), "u", "1", **fields)


def numbered(prefix: str, count: int) -> tuple[str, ...]:
    return tuple(f"{prefix}{number}" for number in range(count))


LENDING = Quota(4000, lending_limit=4000)


@pytest.mark.parametrize(
    "given, errors",
    [
        pytest.param(queue(), [], id="an empty queue"),
        pytest.param(
            queue(group("cpu", "memory"), group("example.com/gpu", flavors=("a", "b"))), [], id="resources and flavors"
        ),
        pytest.param(queue(group(quota=Quota(0))), [], id="no quota at all is fine"),
        pytest.param(
            queue(group("a b")),
            [f'{GROUP}.coveredResources[0]: Invalid value: "a b": {NAME_PART}'],
            id="a bad resource",
        ),
        pytest.param(
            queue(ResourceGroup(("memory", "cpu"), group("cpu", "memory").flavors)),
            [
                f'{RESOURCE}.name: Invalid value: "cpu": must match the name in coveredResources',
                f'{GROUP}.flavors[0].resources[1].name: Invalid value: "memory": must match the name in '
                "coveredResources",
            ],
            id="resources in another order than they are covered",
        ),
        pytest.param(
            queue(group("cpu"), group("memory", "cpu", flavors=("b",))),
            ['spec.resourceGroups[1].coveredResources[1]: Duplicate value: "cpu"'],
            id="a resource in two groups",
        ),
        pytest.param(
            queue(group("cpu"), group("memory")),
            ['spec.resourceGroups[1].flavors[0].name: Duplicate value: "spot"'],
            id="a flavor in two groups",
        ),
        pytest.param(
            queue(group(quota=Quota(-1500))),
            [f'{RESOURCE}.nominalQuota: Invalid value: "-1500m": {NOT_BELOW_ZERO}'],
            id="less quota than none",
        ),
        pytest.param(
            queue(group(quota=Quota(4, -1, -2)), cohort="team"),
            [
                f'{RESOURCE}.borrowingLimit: Invalid value: "-1m": {NOT_BELOW_ZERO}',
                f'{RESOURCE}.lendingLimit: Invalid value: "-2m": {NOT_BELOW_ZERO}',
            ],
            id="limits below zero",
        ),
        pytest.param(
            queue(group(quota=Quota(4, 1, 1))),
            [
                f'{RESOURCE}.borrowingLimit: Invalid value: "1m": must be nil when cohort is empty',
                f'{RESOURCE}.lendingLimit: Invalid value: "1m": must be nil when cohort is empty',
            ],
            id="limits without a cohort",
        ),
        pytest.param(queue(group(quota=Quota(4, 1, 1)), cohort="team"), [], id="limits with a cohort"),
        pytest.param(queue(group(quota=LENDING), cohort="team"), [], id="lending all there is"),
        pytest.param(
            queue(group("memory", quota=Quota(1 << 30, None, 2 << 30)), cohort="team"),
            [f'{RESOURCE}.lendingLimit: Invalid value: "2Gi": must be less than or equal to the nominalQuota'],
            id="lending more than there is",
        ),
        pytest.param(
            queue(*(group(f"r{i}", flavors=numbered(f"f{i}-", 64)) for i in range(4))),
            [],
            id="as many flavors as may be",
        ),
        pytest.param(
            queue(
                *(group(f"r{i}", flavors=numbered(f"f{i}-", 64)) for i in range(4)),
                group("last", flavors=("one-more",)),
            ),
            ["spec.resourceGroups.flavors: Too many: 257: must have at most 256 items"],
            id="too many flavors",
        ),
        pytest.param(
            queue(*(group(*numbered(f"r{i}-", 64), flavors=(f"f{i}",)) for i in range(5))),
            ["spec.resourceGroups.coveredResources: Too many: 320: must have at most 256 items"],
            id="too many resources",
        ),
        pytest.param(
            queue(group(*numbered("r", 27), flavors=numbered("f", 19))),
            [f"{GROUP}: Too many: 513: must have at most 512 items"],
            id="too many flavors of too many resources",
        ),
        pytest.param(
            queue(fair_weight=-1), [f'spec.fairSharing.weight: Invalid value: "-1m": {NOT_BELOW_ZERO}'], id="a weight"
        ),
        pytest.param(
            queue(group(), checks=(RequiredCheck("all"), RequiredCheck("a", ("spot", "gone")))),
            ['spec.admissionChecksStrategy.admissionChecks[1].onFlavors[1]: Not found: "gone"'],
            id="a check on a flavor of another queue",
        ),
    ],
)
def test_a_new_cluster_queue(given, errors):
    assert [str(error) for error in cluster_queue_errors(given)] == errors


GONE = ['spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0]: Not found: "gone"']


@pytest.mark.parametrize(
    "old, errors",
    [
        pytest.param(queue(group(), checks=(RequiredCheck("a", ("gone",)),)), [], id="what was wrong before may stay"),
        pytest.param(queue(group(), checks=(RequiredCheck("b", ("gone",)),)), GONE, id="of another check it was wrong"),
        pytest.param(queue(group()), GONE, id="the check is new"),
        pytest.param(
            queue(group(flavors=("gone",)), checks=(RequiredCheck("a", ("gone",)),)),
            GONE,
            id="the flavor goes away now",
        ),
    ],
)
def test_a_change_of_a_cluster_queue(old, errors):
    new = queue(group(), checks=(RequiredCheck("a", ("gone",)),))
    assert [str(error) for error in cluster_queue_errors(new, old)] == errors


@pytest.mark.parametrize(
    "given, errors",
    [
        pytest.param(cohort(group()), [], id="a root with quota"),
        pytest.param(
            cohort(group(quota=Quota(4, 1))),
            [f'{RESOURCE}.borrowingLimit: Invalid value: "1m": must be nil when parent is empty'],
            id="a root with a limit",
        ),
        pytest.param(
            cohort(group(quota=Quota(0, None, 9)), parent="root"), [], id="a cohort lends what its queues have"
        ),
        pytest.param(
            cohort(group(quota=Quota(-1)), parent="root"),
            [f'{RESOURCE}.nominalQuota: Invalid value: "-1m": {NOT_BELOW_ZERO}'],
            id="less quota than none",
        ),
    ],
)
def test_a_cohort(given, errors):
    assert [str(error) for error in cohort_errors(given)] == errors


@pytest.mark.parametrize(
    "given, paths",
    [
        pytest.param(flavor(node_labels={"pool": "a"}, tolerations=tolerating("a", "")), [], id="a plain one"),
        pytest.param(flavor(node_labels={"a b": "c"}), ["spec.nodeLabels[a b]"], id="a label with a bad key"),
        pytest.param(flavor(node_labels={"a": "b c"}), ["spec.nodeLabels[a]"], id="a label with a bad value"),
        pytest.param(
            flavor(node_taints=(Taint("a b", "", TaintEffect.NO_SCHEDULE),)),
            ["spec.nodeTaints[0].key"],
            id="a bad taint",
        ),
        pytest.param(flavor(tolerations=tolerating("a", "b c")), ["spec.tolerations[1].key"], id="a bad toleration"),
    ],
)
def test_a_flavor(given, paths):
    assert [error.path for error in flavor_errors(given)] == paths
