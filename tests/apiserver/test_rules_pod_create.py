"""What a new pod becomes, and what is refused, in a real server's words."""

from __future__ import annotations

import copy

import pytest
from rules_builders import admitted, container, create_errors, created, pod, requesting, with_metadata

from headgate.apiserver import ApiError, Json

GATED = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
ABSENT = "absent"
SUBDOMAIN = "a lowercase RFC 1123 subdomain must consist of"
LABEL = "a lowercase RFC 1123 label must consist of"


def starts(errors: list[str], expected: list[str]) -> bool:
    return len(errors) == len(expected) and all(map(str.startswith, errors, expected))


@pytest.mark.parametrize(
    "given, path, expected",
    [
        pytest.param(pod(), ("spec", "restartPolicy"), "Always", id="a pod restarts always"),
        pytest.param(pod(), ("spec", "schedulerName"), "default-scheduler", id="the default scheduler places it"),
        pytest.param(pod(schedulerName="mine"), ("spec", "schedulerName"), "mine", id="a named scheduler is kept"),
        pytest.param(pod(), ("spec", "terminationGracePeriodSeconds"), 30, id="it has half a minute to stop"),
        pytest.param(
            pod(terminationGracePeriodSeconds=-1), ("spec", "terminationGracePeriodSeconds"), 1, id="never less than 1"
        ),
        pytest.param(
            pod(terminationGracePeriodSeconds=0), ("spec", "terminationGracePeriodSeconds"), 0, id="zero is a grace"
        ),
        pytest.param(pod(), ("spec", "dnsPolicy"), "ClusterFirst", id="names are those of the cluster"),
        pytest.param(pod(), ("status", "phase"), "Pending", id="it is pending"),
        pytest.param(
            {**pod(), "status": {"phase": "Running"}}, ("status", "phase"), "Pending", id="a given status is dropped"
        ),
        pytest.param(
            pod(schedulingGates=[{"name": "a/b"}]), ("status", "conditions"), [GATED], id="a gated pod says so"
        ),
        pytest.param(
            requesting({}, {"cpu": "1"}),
            ("spec", "containers", 0, "resources", "requests"),
            {"cpu": "1"},
            id="a limit is also the request",
        ),
        pytest.param(
            requesting({"cpu": 2, "memory": "1024Ki"}),
            ("spec", "containers", 0, "resources", "requests"),
            {"cpu": "2", "memory": "1Mi"},
            id="quantities are stored in canonical form",
        ),
        pytest.param(
            requesting({"cpu": "1u"}),
            ("spec", "containers", 0, "resources", "requests", "cpu"),
            "1m",
            id="less than a thousandth is a thousandth",
        ),
        pytest.param(
            pod(containers=[container(image="x")]),
            ("spec", "containers", 0, "imagePullPolicy"),
            "Always",
            id="an image without a tag is always pulled",
        ),
        pytest.param(
            pod(containers=[container(image="host:5000/x:v1")]),
            ("spec", "containers", 0, "imagePullPolicy"),
            "IfNotPresent",
            id="an image with a tag is pulled once",
        ),
        pytest.param(pod(surprise=1), ("spec", "surprise"), ABSENT, id="an unknown field is not kept"),
        pytest.param(pod(tolerations=[]), ("spec", "tolerations"), ABSENT, id="an empty list is not kept"),
        pytest.param(
            pod(hostNetwork=True, containers=[container(ports=[{"containerPort": 80}])]),
            ("spec", "containers", 0, "ports"),
            [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}],
            id="on the host's network a port is the host's port",
        ),
    ],
)
def test_a_new_pod_is_completed(given: Json, path: tuple[str | int, ...], expected: object) -> None:
    before = copy.deepcopy(given)
    found: object = created(given)
    for step in path:
        found = found.get(step, ABSENT) if isinstance(found, dict) else found[step]  # type: ignore[index]
    assert found == expected
    assert given == before, "the given object is not changed"
    assert created(created(given)) == created(given), "doing it twice changes nothing more"


@pytest.mark.parametrize(
    "spec, quality",
    [
        pytest.param({}, "BestEffort", id="who asks for nothing gets what is left"),
        pytest.param(
            {"containers": [container(resources={"limits": {"cpu": "1", "memory": "1Gi"}})]},
            "Guaranteed",
            id="limits on cpu and memory guarantee",
        ),
        pytest.param(
            {"containers": [container(resources={"limits": {"cpu": "1"}})]}, "Burstable", id="one limit is not enough"
        ),
        pytest.param(
            {"resources": {}, "containers": [container(resources={"requests": {"cpu": "1"}})]},
            "BestEffort",
            id="of a pod with resources of its own only these count",
        ),
        pytest.param(
            {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}, "Guaranteed", id="limits of the pod as a whole"
        ),
        pytest.param(
            {"containers": [container(resources={"requests": {"cpu": "1"}})]}, "Burstable", id="a request alone bursts"
        ),
        pytest.param(
            {"containers": [container(resources={"requests": {"example.com/gpu": "1"}})]},
            "BestEffort",
            id="only cpu and memory count",
        ),
    ],
)
def test_quality_of_service(spec: Json, quality: str) -> None:
    assert created(pod(**spec))["status"]["qosClass"] == quality


def test_label_keys_become_part_of_the_selector_once() -> None:
    term = {"topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": ["run"], "mismatchLabelKeys": ["team"]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    given = with_metadata(pod(affinity={"podAntiAffinity": required}), labels={"run": "7", "team": "a"})
    once = created(given)
    stored = once["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    assert stored["labelSelector"]["matchExpressions"] == [
        {"key": "run", "operator": "In", "values": ["7"]},
        {"key": "team", "operator": "NotIn", "values": ["a"]},
    ]
    assert created(once) == once
    assert create_errors(given) == []


def test_pods_stay_five_minutes_on_an_unreachable_node() -> None:
    tolerations = admitted("CREATE", created(pod()))["spec"]["tolerations"]
    assert [(one["key"], one["effect"], one["tolerationSeconds"]) for one in tolerations] == [
        ("node.kubernetes.io/not-ready", "NoExecute", 300),
        ("node.kubernetes.io/unreachable", "NoExecute", 300),
    ]


def test_pods_that_tolerate_everything_are_left_alone() -> None:
    everything = [{"operator": "Exists"}]
    assert admitted("CREATE", created(pod(tolerations=everything)))["spec"]["tolerations"] == everything


@pytest.mark.parametrize(
    "given, expected",
    [
        pytest.param(pod(), [], id="a plain pod is fine"),
        pytest.param(pod(containers=[]), ["spec.containers: Required value"], id="no containers"),
        pytest.param(pod(containers=[{"image": "i"}]), ["spec.containers[0].name: Required value"], id="no name"),
        pytest.param(pod(containers=[{"name": "a"}]), ["spec.containers[0].image: Required value"], id="no image"),
        pytest.param(
            pod(containers=[container(image=" x")]),
            ['spec.containers[0].image: Invalid value: " x": must not have leading or trailing whitespace'],
            id="an image with a space before it",
        ),
        pytest.param(
            pod(containers=[container("Bad")]),
            [f'spec.containers[0].name: Invalid value: "Bad": {LABEL}'],
            id="bad name",
        ),
        pytest.param(
            pod(containers=[container(), container()]),
            ['spec.containers[1].name: Duplicate value: "main"'],
            id="two containers of one name",
        ),
        pytest.param(
            pod(initContainers=[container()]),
            ['spec.initContainers[0].name: Duplicate value: "main"'],
            id="an init container with the name of a container",
        ),
        pytest.param(
            with_metadata(pod(), name="It"),
            [f'metadata.name: Invalid value: "It": {SUBDOMAIN}'],
            id="a name in capitals",
        ),
        pytest.param(
            with_metadata(pod(), name=""),
            ["metadata.name: Required value: name or generateName is required"],
            id="no name at all",
        ),
        pytest.param(
            with_metadata(pod(), labels={"a/b/c": "x"}),
            ['metadata.labels: Invalid value: "a/b/c": a valid label key must consist of'],
            id="a label key with two slashes",
        ),
        pytest.param(
            with_metadata(pod(), labels={"a": "x" * 64}),
            [f'metadata.labels: Invalid value: "{"x" * 64}": must be no more than 63 bytes'],
            id="a label value that is too long",
        ),
        pytest.param(
            with_metadata(pod(), annotations={"a": "x" * 300_000}),
            ["metadata.annotations: Too long: may not be more than 262144 bytes"],
            id="annotations that are too long",
        ),
        pytest.param(
            with_metadata(pod(), finalizers=["stay"]),
            [
                'metadata.finalizers[0]: Invalid value: "stay": '
                "name is neither a standard finalizer name nor is it fully qualified"
            ],
            id="a finalizer without a domain",
        ),
        pytest.param(
            with_metadata(pod(), ownerReferences=[{"apiVersion": "v1", "kind": "X", "name": "x"}]),
            ['metadata.ownerReferences.uid: Invalid value: "": must not be empty'],
            id="an owner without a uid",
        ),
        pytest.param(
            pod(restartPolicy="Sometimes"),
            ['spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"'],
            id="an unknown restart policy",
        ),
        pytest.param(
            pod(preemptionPolicy="Sometimes"),
            [
                'spec.preemptionPolicy: Unsupported value: "Sometimes": '
                'supported values: "PreemptLowerPriority", "Never"'
            ],
            id="an unknown preemption policy",
        ),
        pytest.param(
            pod(activeDeadlineSeconds=0),
            ["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
            id="a deadline of nothing",
        ),
        pytest.param(
            pod(ephemeralContainers=[container("debug")]),
            ["spec.ephemeralContainers: Forbidden: cannot be set on create"],
            id="ephemeral containers",
        ),
        pytest.param(
            pod(schedulingGates=[{"name": "a/b"}], nodeName="n"),
            ["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"],
            id="a node behind a gate",
        ),
        pytest.param(
            pod(
                containers=[container(resources={"requests": {"cpu": "2"}})],
                initContainers=[container("side", restartPolicy="Always", resources={"requests": {"cpu": "1"}})],
                resources={"requests": {"cpu": "2"}},
            ),
            [
                'spec.resources.requests[cpu]: Invalid value: "2": '
                "must be greater than or equal to aggregate container requests of 3"
            ],
            id="a pod that asks for less than its containers",
        ),
        pytest.param(
            pod(containers=[container(ports=[{"containerPort": 0}])]),
            ["spec.containers[0].ports[0].containerPort: Required value"],
            id="port zero",
        ),
        pytest.param(
            pod(containers=[container(ports=[{"containerPort": 70000}])]),
            ["spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive"],
            id="a port beyond all ports",
        ),
        pytest.param(
            pod(containers=[container(name, ports=[{"containerPort": 1, "hostPort": 80}]) for name in ("a", "b")]),
            ['spec.containers[1].ports[0].hostPort: Duplicate value: "TCP//80"'],
            id="one host port for two containers",
        ),
    ],
)
def test_what_a_new_pod_may_not_be(given: Json, expected: list[str]) -> None:
    errors = create_errors(given)
    assert starts(errors, expected), errors


REQUESTS = "spec.containers[0].resources.requests"
LIMITS = "spec.containers[0].resources.limits"


@pytest.mark.parametrize(
    "requests, limits, expected",
    [
        pytest.param({"cpu": "1"}, {"cpu": "2"}, [], id="a request below its limit is fine"),
        pytest.param(
            {"cpu": "2"},
            {"cpu": "1"},
            [f'{REQUESTS}: Invalid value: "2": must be less than or equal to cpu limit of 1'],
            id="a request above its limit",
        ),
        pytest.param(
            {"cpu": "-1"},
            {},
            [f'{REQUESTS}[cpu]: Invalid value: "-1": must be greater than or equal to 0'],
            id="a negative request",
        ),
        pytest.param(
            {"example.com/gpu": "1"},
            {},
            [f"{LIMITS}: Required value: Limit must be set for non overcommitable resources"],
            id="a device without a limit",
        ),
        pytest.param(
            {"example.com/gpu": "1"},
            {"example.com/gpu": "2"},
            [f'{REQUESTS}: Invalid value: "1": must be equal to example.com/gpu limit of 2'],
            id="a device with another limit",
        ),
        pytest.param(
            {"example.com/gpu": "1500m"},
            {"example.com/gpu": "1500m"},
            [
                f'{LIMITS}[example.com/gpu]: Invalid value: "1500m": must be an integer',
                f'{REQUESTS}[example.com/gpu]: Invalid value: "1500m": must be an integer',
            ],
            id="a fraction of a device",
        ),
        pytest.param(
            {"speed": "1"},
            {},
            [
                f'{REQUESTS}[speed]: Invalid value: "speed": must be a standard resource type or fully qualified',
                f'{REQUESTS}[speed]: Invalid value: "speed": must be a standard resource for containers',
            ],
            id="an unknown resource without a domain",
        ),
        pytest.param(
            {"hugepages-2Mi": "2Mi"},
            {"hugepages-2Mi": "2Mi"},
            ["spec.containers[0].resources: Forbidden: HugePages require cpu or memory"],
            id="huge pages alone",
        ),
    ],
)
def test_what_a_container_may_ask_for(requests: Json, limits: Json, expected: list[str]) -> None:
    assert create_errors(requesting(requests, limits)) == expected


@pytest.mark.parametrize(
    "given, message",
    [
        pytest.param(
            requesting({"cpu": "one"}),
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            id="a request that is no quantity",
        ),
        pytest.param(
            pod(containers="none"),
            "json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container",
            id="a word for a list",
        ),
        pytest.param(
            pod(priority=2**31),
            "json: cannot unmarshal number 2147483648 into Go struct field PodSpec.spec.priority of type int32",
            id="too high a priority",
        ),
        pytest.param(
            pod(containers=[container(image=5)]),
            "json: cannot unmarshal number into Go struct field Container.spec.containers.image of type string",
            id="a number for an image",
        ),
        pytest.param(
            with_metadata(pod(), labels={"a": 1}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
            id="a number for a label",
        ),
        pytest.param(
            {**pod(), "spec": []},
            "json: cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec",
            id="a list for a spec",
        ),
    ],
)
def test_what_cannot_even_be_read(given: Json, message: str) -> None:
    with pytest.raises(ApiError) as refusal:
        created(given)
    assert refusal.value.code == 400
    assert refusal.value.message == f'Pod in version "v1" cannot be handled as a Pod: {message}'
