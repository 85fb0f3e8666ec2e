"""What pods demand of other pods, of host ports and of images, from bytes."""

from __future__ import annotations

import json

import pytest

from headgate.api.decode import decode
from headgate.api.wire import InvalidObject
from headgate.model.keys import Kind
from headgate.model.node import HostPort, PeerDemands, PodTerm, Spread, WeightedTerm
from headgate.model.selectors import Operator, Requirement

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
APP_X = (Requirement("app", Operator.IN, ("x",)),)
X = {"matchLabels": {"app": "x"}}


def shape(labels=None, **spec):
    spec = {"containers": [], **spec}
    metadata = {"name": "a", "namespace": "own", "labels": labels or {}}
    return decode(Kind.POD, json.dumps({"metadata": metadata, "spec": spec}).encode()).shape


def near(**term):
    """A required affinity of one term."""
    return {"podAffinity": {REQUIRED: [{"topologyKey": "zone", **term}]}}


def spread(labels=None, **constraint):
    """The one constraint a pod with these labels is left with."""
    fields = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **constraint}
    return shape(labels, topologySpreadConstraints=[fields]).peers.hard_spread[0]


@pytest.mark.parametrize(
    "term, wanted",
    [
        pytest.param(
            {"labelSelector": X}, PodTerm("zone", APP_X, ("own",)), id="without namespaces it means the pod's own"
        ),
        pytest.param(
            {"labelSelector": X, "namespaces": []},
            PodTerm("zone", APP_X, ("own",)),
            id="an empty list of namespaces is as good as none",
        ),
        pytest.param(
            {"labelSelector": X, "namespaces": ["c", "b", "c"]},
            PodTerm("zone", APP_X, ("b", "c")),
            id="named namespaces are those and not its own, each once",
        ),
        pytest.param(
            {"labelSelector": X, "namespaceSelector": {}},
            PodTerm("zone", APP_X, (), ()),
            id="an empty namespace selector means all",
        ),
        pytest.param(
            {"labelSelector": X, "namespaces": ["b"], "namespaceSelector": X},
            PodTerm("zone", APP_X, ("b",), APP_X),
            id="named namespaces and selected ones add up",
        ),
        pytest.param({}, PodTerm("zone", None, ("own",)), id="no selector selects no pod"),
        pytest.param({"labelSelector": {}}, PodTerm("zone", (), ("own",)), id="an empty one selects every pod"),
        pytest.param(
            {
                "labelSelector": {
                    "matchLabels": {"b": "1", "a": "1"},
                    "matchExpressions": [
                        {"key": "a", "operator": "NotIn", "values": ["z", "y"]},
                        {"key": "a", "operator": "In", "values": ["1"]},
                    ],
                }
            },
            PodTerm(
                "zone",
                (
                    Requirement("a", Operator.IN, ("1",)),
                    Requirement("a", Operator.NOT_IN, ("y", "z")),
                    Requirement("b", Operator.IN, ("1",)),
                ),
                ("own",),
            ),
            id="what a selector says is sorted, each once",
        ),
    ],
)
def test_a_term(term, wanted):
    assert shape(affinity=near(**term)).peers == PeerDemands(affinity=(wanted,))


def test_affinity_and_anti_affinity_required_and_preferred():
    term, weighted = {"topologyKey": "zone"}, {"weight": 7, "podAffinityTerm": {"topologyKey": "host"}}
    both = {REQUIRED: [term], PREFERRED: [weighted]}
    zone, host = PodTerm("zone", None, ("own",)), PodTerm("host", None, ("own",))
    assert shape(affinity={"podAffinity": both, "podAntiAffinity": both}).peers == PeerDemands(
        affinity=(zone,), anti_affinity=(zone,), preferences=(WeightedTerm(7, host), WeightedTerm(-7, host))
    )


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="nothing is said"),
        pytest.param({"affinity": None, "topologySpreadConstraints": None}, id="null is said"),
        pytest.param({"affinity": {}, "topologySpreadConstraints": []}, id="nothing is in them"),
        pytest.param({"affinity": {"podAffinity": {REQUIRED: []}, "podAntiAffinity": {}}}, id="they hold no term"),
        pytest.param({"affinity": {"nodeAffinity": {}}}, id="only nodes are spoken of"),
    ],
)
def test_nothing_is_demanded_of_other_pods_when(spec):
    assert shape(**spec).peers is None


def test_an_affinity_means_another_namespace_for_a_pod_of_another():
    def term_of(namespace):
        spec = {"containers": [], "affinity": near()}
        pod = {"metadata": {"name": "a", "namespace": namespace}, "spec": spec}
        return decode(Kind.POD, json.dumps(pod).encode()).shape.peers.affinity[0]

    assert [term_of(namespace).namespaces for namespace in ("b", "c", "b")] == [("b",), ("c",), ("b",)]


@pytest.mark.parametrize(
    "found, wanted",
    [
        pytest.param(spread(), Spread(1, "zone", None, 1, True, False), id="what is not said has upstream's defaults"),
        pytest.param(
            spread(maxSkew=2, labelSelector=X, minDomains=3, nodeAffinityPolicy="Ignore", nodeTaintsPolicy="Honor"),
            Spread(2, "zone", APP_X, 3, False, True),
            id="what is said is kept",
        ),
        pytest.param(
            spread({"version": "2", "app": "y"}, labelSelector=X, matchLabelKeys=["version"]),
            Spread(1, "zone", (*APP_X, Requirement("version", Operator.IN, ("2",)))),
            id="the pod's own labels join the selector",
        ),
        pytest.param(
            spread({}, labelSelector=X, matchLabelKeys=["version"]),
            Spread(1, "zone", APP_X),
            id="labels the pod lacks do not",
        ),
        pytest.param(
            spread({"app": "x"}, labelSelector=X, matchLabelKeys=["app"]),
            Spread(1, "zone", APP_X),
            id="what the server merged already is not there twice",
        ),
        pytest.param(
            spread({"app": "x"}, matchLabelKeys=["app"]),
            Spread(1, "zone", None),
            id="a constraint without a selector selects nothing still",
        ),
    ],
)
def test_a_spread_constraint(found, wanted):
    assert found == wanted


def test_hard_and_soft_constraints_are_kept_apart():
    constraints = [
        {"maxSkew": skew, "topologyKey": "zone", "whenUnsatisfiable": action}
        for skew, action in enumerate(("ScheduleAnyway", "DoNotSchedule", "ScheduleAnyway"), start=1)
    ]
    peers = shape(topologySpreadConstraints=constraints).peers
    assert [each.max_skew for each in peers.hard_spread] == [2]
    assert [each.max_skew for each in peers.soft_spread] == [1, 3]


def serving(**port):
    return {"name": "c", "ports": [port]}


@pytest.mark.parametrize(
    "spec, ports",
    [
        pytest.param({"containers": [serving(containerPort=80)]}, (), id="a port of the container alone is none"),
        pytest.param(
            {"containers": [serving(containerPort=80, hostPort=8080)]},
            (HostPort(8080, "TCP", "0.0.0.0"),),
            id="a host port is TCP on every address unless it says otherwise",
        ),
        pytest.param(
            {"containers": [serving(containerPort=80, hostPort=53, protocol="UDP", hostIP="127.0.0.1")]},
            (HostPort(53, "UDP", "127.0.0.1"),),
            id="protocol and address are kept",
        ),
        pytest.param(
            {"containers": [serving(containerPort=80)], "hostNetwork": True},
            (HostPort(80),),
            id="on the host's network every port is a host port",
        ),
        pytest.param(
            {"containers": [serving(hostPort=9), serving(hostPort=8), serving(hostPort=9)]},
            (HostPort(8), HostPort(9)),
            id="the ports of all containers are sorted, each once",
        ),
        pytest.param(
            {"initContainers": [{**serving(hostPort=8), "restartPolicy": "Always"}]},
            (HostPort(8),),
            id="a sidecar's count",
        ),
        pytest.param({"initContainers": [serving(hostPort=8)]}, (), id="those of a step that ends before do not"),
    ],
)
def test_host_ports(spec, ports):
    assert shape(**spec).ports == ports


@pytest.mark.parametrize(
    "image, name",
    [
        pytest.param("nginx", "nginx:latest", id="without a tag it is the latest"),
        pytest.param("nginx:1.2", "nginx:1.2", id="a tag is kept"),
        pytest.param("host:5000/nginx", "host:5000/nginx:latest", id="a host's port is no tag"),
        pytest.param("host:5000/nginx:1", "host:5000/nginx:1", id="a tag after a host's port is one"),
        pytest.param("nginx@sha256:ab", "nginx@sha256:ab", id="a digest is as good as a tag"),
    ],
)
def test_an_image(image, name):
    assert shape(containers=[{"name": "c", "image": image}]).images == (name,)


def test_the_images_of_all_containers_count_each_time_they_are_run():
    images = [{"image": "b"}, {"image": "a"}, {"image": "b"}]
    assert shape(initContainers=images[:1], containers=images[1:]).images == ("b:latest", "a:latest", "b:latest")


@pytest.mark.parametrize(
    "spec, path, expected",
    [
        pytest.param(
            {"affinity": {"podAffinity": {REQUIRED: [{}]}}},
            f"$.spec.affinity.podAffinity.{REQUIRED}[0]",
            "Object missing required field topologyKey",
            id="a term without a topology key",
        ),
        pytest.param(
            {"affinity": near(labelSelector={"matchLabels": {"app": 1}})},
            f"$.spec.affinity.podAffinity.{REQUIRED}[0].labelSelector",
            "matchLabels[app]: expected text, found 1",
            id="a selector that is none",
        ),
        pytest.param(
            {
                "affinity": {
                    "podAntiAffinity": {
                        PREFERRED: [
                            {
                                "weight": 1,
                                "podAffinityTerm": {"topologyKey": "z", "namespaceSelector": {"matchLabels": 1}},
                            }
                        ]
                    }
                }
            },
            f"$.spec.affinity.podAntiAffinity.{PREFERRED}[0].podAffinityTerm.namespaceSelector",
            "matchLabels: expected an object, found 1",
            id="a namespace selector that is none",
        ),
        pytest.param(
            {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "Sulk"}]},
            "$.spec.topologySpreadConstraints[0].whenUnsatisfiable",
            "Invalid enum value 'Sulk'",
            id="a constraint that does not say what to do",
        ),
        pytest.param(
            {"containers": [serving(hostPort="http")]},
            "$.spec.containers[0].ports[0].hostPort",
            "Expected int, got str",
            id="a port in words",
        ),
    ],
)
def test_malformed_demands(spec, path, expected):
    with pytest.raises(InvalidObject) as refused:
        shape(**spec)
    assert (refused.value.path, refused.value.expected) == (path, expected)
