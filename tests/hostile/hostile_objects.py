"""Objects as nobody should write them, of every kind we read: well-formed ones with parts that are made hostile."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

from headgate.model.keys import Kind
from headgate.model.queues import GATE_SIGNALS

Json = dict[str, Any]

NAMES = (
    *("a", "b", "c", "gang", "cq", "lq", "n-0", "flavor", "high", "cohort", "main", "workers"),
    *("", "A_b!", "x" * 300, "ü\u202e\U0001f600", "../.."),
)
HUGE_NUMBERS = (2**31, 2**31 - 1, -(2**31) - 1, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30, 10**4200, "@")
QUANTITIES = (
    *("8E", "16E", "9223372036854775807", "9223372036854775808", "-1", "-8E", "1e999999999", "1e1000", "1e-1000"),
    *("0", "NaN", "inf", "-inf", "1" * 2000, "9" * 999, "0." + "1" * 900, "1n", "8Ei", "", " 1", "1e", "1.5.5", "０"),
)
TIMES = (
    *("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0000-00-00T00:00:00Z", "2026-01-01T00:00:00+14:00", "now", ""),
    *("9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "2026-02-30T00:00:00Z", "2026-01-01T00:00:60Z"),
)
DURATIONS = ("1e308s", "-1s", "99999999999999h", "1ns", "∞", "0")
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "in", "", "Equals")
POLICIES = ("Always", "Never", "Any", "LowerPriority", "OnFailure", "None", "Retry", "StrictFIFO", "DoNotSchedule", "x")
PLAIN = (None, True, False, 0, 1, -1, 0.5, 1e308, [], {}, [[]], [{}], [None], {"": None}, "a" * 10_000)
PERCENTS = ("50%", "-1%", "1000000000000%", "%", "1.5%")


def deep(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"a": [value]}
    return value


def hostile_value(dice: Random) -> Any:
    pool = dice.choice(
        (PLAIN, PLAIN, NAMES, HUGE_NUMBERS, QUANTITIES, QUANTITIES, TIMES, DURATIONS, OPERATORS, POLICIES, PERCENTS)
    )
    if dice.random() < 0.02:
        return deep(dice.choice((10, 50, 90)))
    if dice.random() < 0.05:
        return [copy.deepcopy(dice.choice(pool))] * dice.choice((2, 30, 500))
    return copy.deepcopy(dice.choice(pool))


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every part, the whole excepted."""
    found = [path] if path else []
    if isinstance(value, dict):
        for name, part in value.items():
            found += places(part, (*path, name))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            found += places(part, (*path, index))
    return found


def part_at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def mutated(value: Json, dice: Random) -> Json:
    """With one to four parts made hostile. Who it is stays, but for one time in ten."""
    made = copy.deepcopy(value)
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        open_ = [path for path in places(made) if path[:1] != ("metadata",) or len(path) > 1]
        if dice.random() < 0.9:
            open_ = [path for path in open_ if path[-1] not in ("name", "namespace", "uid") or path[0] != "metadata"]
        if not open_:
            break
        leaves = [path for path in open_ if not isinstance(part_at(made, path), dict | list)]
        _mutate(made, dice.choice(leaves if leaves and dice.random() < 0.7 else open_), dice)
    return made


def _mutate(value: Json, path: tuple[Any, ...], dice: Random) -> None:
    holder, last = part_at(value, path[:-1]), path[-1]
    match dice.randrange(10):
        case 0:
            del holder[last]
        case 1 if isinstance(holder, list):
            holder.extend(copy.deepcopy(holder[last]) for _ in range(dice.choice((1, 20, 200))))
        case 2 if isinstance(holder, dict):
            holder[dice.choice(NAMES)] = holder[last]
        case 3:
            holder[last] = copy.deepcopy(part_at(value, dice.choice(places(value))))
        case _:
            holder[last] = _like(holder[last], dice) if dice.random() < 0.8 else hostile_value(dice)


def _like(part: Any, dice: Random) -> Any:
    """Hostile and of the same type, so that it gets further."""
    if isinstance(part, bool):
        return not part
    if isinstance(part, int):
        return dice.choice((*HUGE_NUMBERS[:3], 0, -1, 2**40, dice.choice(HUGE_NUMBERS)))
    if isinstance(part, str):
        return dice.choice(dice.choice((NAMES, QUANTITIES, TIMES, DURATIONS, OPERATORS, POLICIES, PERCENTS)))
    return hostile_value(dice)


def encoded(value: Json) -> bytes:
    """Numbers of more digits than Python writes by itself are put in as text."""
    return json.dumps(value).encode().replace(b'"@"', b"1" * 5000)


# well-formed ones, with as many fields as we read


def metadata(kind: Kind, name: str, namespaced: bool = True, **fields: Any) -> Json:
    made = {
        "name": name,
        "uid": f"uid-{kind}-{name}",
        "resourceVersion": "7",
        "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"app": "a", "kubernetes.io/metadata.name": name},
        "annotations": {},
        **fields,
    }
    return made | ({"namespace": "default"} if namespaced else {})


_CHOSEN = [{"key": "app", "operator": "In", "values": ["a", "b"]}, {"key": "x", "operator": "DoesNotExist"}]
SELECTOR = {"matchLabels": {"app": "a"}, "matchExpressions": _CHOSEN}
AT = "2026-01-01T00:00:00Z"
_SAID = {"type": "Ready", "status": "True", "reason": "r", "message": "m"}
CONDITION = {**_SAID, "lastTransitionTime": AT, "observedGeneration": 1}
_PRICE = {"canPreempt": True, "victims": 2, "highestPriority": 3, "prioritySum": 4}
PROPOSAL = {**_PRICE, "pods": 2, "runningSince": AT}
NODE_TERM = {"matchExpressions": [{"key": "zone", "operator": "Gt", "values": ["3"]}], "matchFields": []}
POD_TERM = {"labelSelector": SELECTOR, "topologyKey": "zone", "namespaces": ["default"], "namespaceSelector": {}}
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [NODE_TERM]},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": NODE_TERM}],
    },
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [POD_TERM],
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "podAffinityTerm": POD_TERM}],
    },
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [],
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 50, "podAffinityTerm": POD_TERM}],
    },
}


def container(name: str = "c", **amounts: str) -> Json:
    asked = amounts or {"cpu": "100m", "memory": "64Mi"}
    return {
        "name": name,
        "image": "i:1",
        "ports": [{"containerPort": 80, "hostPort": 0, "protocol": "TCP"}],
        "resources": {"requests": asked, "limits": {"memory": "128Mi"}},
    }


def pod_spec(dice: Random) -> Json:
    spec = {
        "schedulerName": "headgate",
        "containers": [container()],
        "priority": dice.choice((0, 5)),
        "preemptionPolicy": "PreemptLowerPriority",
        "terminationGracePeriodSeconds": 30,
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
        "nodeSelector": {},
        "schedulingGates": [],
        "restartPolicy": "Never",
    }
    extras = {
        "initContainers": [{**container("i"), "restartPolicy": "Always"}],
        "overhead": {"cpu": "1m"},
        "resources": {"requests": {"cpu": "1"}},
        "affinity": AFFINITY,
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": SELECTOR,
                "minDomains": 2,
                "matchLabelKeys": ["app"],
                "nodeAffinityPolicy": "Honor",
                "nodeTaintsPolicy": "Ignore",
            }
        ],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "a"}}, {"name": "e", "ephemeral": {}}],
        "resourceClaims": [{"name": "d", "resourceClaimName": "a"}],
        "schedulingGates": [{"name": "g"}],
        "hostNetwork": True,
        "runtimeClassName": "a",
        "priorityClassName": "high",
    }
    for name in dice.sample(sorted(extras), dice.randrange(4)):
        spec[name] = extras[name]
    return spec


def pod(dice: Random, name: str) -> Json:
    labels = dice.choice(
        (
            {"app": "a"},
            {"app": "a"},
            {"scheduling.headgate.dev/workload": "gang", "scheduling.headgate.dev/pod-group": "workers"},
            {"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/managed": "true"},
            {"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/managed": "true", "kueue.x-k8s.io/pod-group-name": "g"},
            {"scheduling.x-k8s.io/pod-group": "a"},
        )
    )
    annotations = dice.choice(
        (
            {},
            {
                "headgate.dev/checkpointed-at": "2026-01-01T00:00:00Z",
                "headgate.dev/checkpoint-every": "60s",
                "kueue.x-k8s.io/pod-group-total-count": "2",
                "scheduling.k8s.io/group-name": "a",
                "scheduling.volcano.sh/queue-allocation-gate": "true",
                "scheduling.volcano.sh/queue-name": "q",
                "scheduling.headgate.dev/queue-reserved-at": "2026-01-01T00:00:00Z",
            },
        )
    )
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "uid-jobs.batch-a", "controller": True}
    spec, status = (
        pod_spec(dice),
        {"phase": "Pending", "conditions": [CONDITION, {**CONDITION, "type": "PodScheduled"}]},
    )
    if dice.random() < 0.4:
        spec["nodeName"] = dice.choice(("n-0", "n-1", "nowhere"))
        status |= {"phase": "Running", "startTime": "2026-01-01T00:00:01Z"}
    elif dice.random() < 0.2:
        status["nominatedNodeName"] = "n-0"
    if dice.random() < 0.1:
        status["conditions"].append({**CONDITION, "type": "DisruptionTarget", "reason": "PreemptionByScheduler"})
    fields: Json = {"labels": labels, "annotations": annotations, "finalizers": ["kueue.x-k8s.io/managed"]}
    if dice.random() < 0.3:
        fields["ownerReferences"] = [owner]
    if dice.random() < 0.1:
        fields |= {"deletionTimestamp": "2026-01-01T01:00:00Z", "deletionGracePeriodSeconds": 30}
    return {"metadata": metadata(Kind.POD, name, **fields), "spec": spec, "status": status}


def template(dice: Random) -> Json:
    return {"metadata": {"labels": {"app": "a"}, "annotations": {}}, "spec": pod_spec(dice)}


def queued_workload(dice: Random, name: str) -> Json:
    admission = {
        "clusterQueue": "cq",
        "podSetAssignments": [
            {"name": "main", "flavors": {"cpu": "flavor"}, "resourceUsage": {"cpu": "200m"}, "count": 2},
        ],
    }
    status: Json = {
        "conditions": [
            {**CONDITION, "type": type_, "status": dice.choice(("True", "False"))}
            for type_ in ("QuotaReserved", "Admitted", "Evicted", "Finished", "PodsReady", "Requeued")
            if dice.random() < 0.4
        ]
        + [{**CONDITION, "type": type_} for type_ in GATE_SIGNALS],
        "requeueState": {"count": 1, "requeueAt": "2026-01-01T00:10:00Z"},
        "reclaimablePods": [{"name": "main", "count": 1}],
        "admissionChecks": [
            {
                **{"name": "a", "state": "Retry", "message": "m", "lastTransitionTime": AT},
                **{"requeueAfterSeconds": 5, "retryCount": 1},
                "podSetUpdates": [{"name": "main", "labels": {"a": "b"}, "nodeSelector": {"c": "d"}}],
            }
        ],
        "resourceRequests": [{"name": "main", "resources": {"cpu": "1"}}],
        "accumulatedPastExecutionTimeSeconds": 5,
        "schedulingStats": {"evictions": [{"reason": "r", "underlyingCause": "", "count": 1}]},
        "preemptionGates": [{"name": "g", "state": "Closed", "position": "Open", "lastTransitionTime": AT}],
        "preemptionProposal": PROPOSAL,
    }
    if dice.random() < 0.5:
        status["admission"] = admission
    pod_set = {"name": "main", "count": 2, "minCount": 1, "template": template(dice)}
    spec = {
        "queueName": "lq",
        "active": True,
        "priority": 3,
        "podSets": [pod_set],
        "priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"},
        "maximumExecutionTimeSeconds": 100,
        "preemptionGates": [{"name": "g"}],
    }
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "uid-jobs.batch-a", "controller": True}
    fields = {"ownerReferences": [owner], "finalizers": ["kueue.x-k8s.io/resource-in-use"]}
    return {"metadata": metadata(Kind.KUEUE_WORKLOAD, name, **fields), "spec": spec, "status": status}


def job(dice: Random, name: str) -> Json:
    labels = {"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/priority-class": "high"}
    annotations = {
        "kueue.x-k8s.io/job-min-parallelism": "1",
        "kueue.x-k8s.io/job-completions-equal-parallelism": "true",
    }
    spec = {
        "parallelism": 2,
        "completions": 3,
        "suspend": dice.random() < 0.5,
        "backoffLimit": 2,
        "template": template(dice),
        "selector": {"matchLabels": {"app": "a"}},
        "managedBy": "",
    }
    status = {
        "active": 1,
        "ready": 1,
        "terminating": 0,
        "succeeded": 1,
        "failed": 0,
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [{**CONDITION, "type": "Complete", "status": "False"}],
    }
    return {
        "metadata": metadata(Kind.JOB, name, labels=labels, annotations=annotations, finalizers=[]),
        "spec": spec,
        "status": status,
    }


def node(_dice: Random, name: str) -> Json:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110", "example.com/gpu": "2"}
    return {
        "metadata": metadata(Kind.NODE, name, namespaced=False, labels={"zone": "4", "kubernetes.io/hostname": name}),
        "spec": {"unschedulable": False, "taints": [{"key": "k", "value": "v", "effect": "PreferNoSchedule"}]},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [CONDITION],
            "images": [{"names": ["i:1"], "sizeBytes": 100}],
        },
    }


def quotas(nominal: str = "2") -> list[Json]:
    resources = [
        {"name": "cpu", "nominalQuota": nominal, "borrowingLimit": "1", "lendingLimit": "1"},
        {"name": "memory", "nominalQuota": "8E", "borrowingLimit": "0"},
    ]
    return [{"coveredResources": ["cpu", "memory"], "flavors": [{"name": "flavor", "resources": resources}]}]


def cluster_queue(dice: Random, name: str) -> Json:
    spec = {
        "cohortName": "cohort",
        "queueingStrategy": "BestEffortFIFO",
        "namespaceSelector": dice.choice(({}, SELECTOR)),
        "resourceGroups": quotas(),
        "stopPolicy": "None",
        "preemption": {
            "withinClusterQueue": "LowerPriority",
            "reclaimWithinCohort": "Any",
            "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 5},
        },
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
        "fairSharing": {"weight": "1500m"},
        "admissionChecksStrategy": {"admissionChecks": [{"name": "a", "onFlavors": ["flavor"]}]},
        "admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"},
    }
    if dice.random() < 0.8:
        del spec["admissionChecksStrategy"]
    used = [{"name": "flavor", "resources": [{"name": "cpu", "total": "1", "borrowed": "0"}]}]
    status = {
        "conditions": [{**CONDITION, "type": "Active"}],
        "flavorsReservation": used,
        "flavorsUsage": used,
        "pendingWorkloads": 1,
        "reservingWorkloads": 1,
        "admittedWorkloads": 1,
        "fairSharing": {"weightedShare": 5},
    }
    return {"metadata": metadata(Kind.CLUSTER_QUEUE, name, namespaced=False), "spec": spec, "status": status}


def _spec_of(kind: Kind, spec: Json, status: Json | None = None, namespaced: bool = True) -> Any:
    def make(_dice: Random, name: str) -> Json:
        made = {"metadata": metadata(kind, name, namespaced=namespaced), "spec": copy.deepcopy(spec)}
        return made if status is None else {**made, "status": copy.deepcopy(status)}

    return make


def _flat(kind: Kind, fields: Json, namespaced: bool = False) -> Any:
    return lambda _dice, name: {"metadata": metadata(kind, name, namespaced=namespaced), **copy.deepcopy(fields)}


def volcano_queue(dice: Random, name: str) -> Json:
    spec = {
        "capability": {"cpu": dice.choice(("1000", "1", "0")), "memory": "1Ti"},
        **{"guarantee": {"resource": {"cpu": "1"}}, "deserved": {"cpu": "2"}},
        "parent": dice.choice(("root", "root", "default", "q", "a", "b")),
        **{"priority": dice.choice((0, 5)), "weight": 1, "reclaimable": True},
        "dequeueStrategy": dice.choice(("fifo", "traverse")),
    }
    state = dice.choice(("Open", "Open", "Closing", "Closed", "Unknown"))
    status = {"state": state, "allocated": {"cpu": "1"}, "reservation": {"resource": {"cpu": "1"}}, "pending": 1}
    return {"metadata": metadata(Kind.VOLCANO_QUEUE, name, namespaced=False), "spec": spec, "status": status}


def volcano_pod_group(dice: Random, name: str) -> Json:
    spec = {"minMember": dice.choice((0, 1, 2)), "queue": dice.choice(("q", "a", "root")), "priorityClassName": "high"}
    spec |= {"minResources": _LIMITS} if dice.random() < 0.5 else {}
    status = {"phase": "Pending", "conditions": [CONDITION], "running": 1, "succeeded": 1, "failed": 1}
    return {"metadata": metadata(Kind.VOLCANO_POD_GROUP, name), "spec": spec, "status": status}


_TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": []}}
_REPLICAS = {"replicas": 2, "selector": SELECTOR, "template": _TEMPLATE}
_LIMITS = {"cpu": "1", "memory": "1Gi"}
_SOURCE = {"clusterSource": {"kubeConfig": {"location": "a", "locationType": "Secret"}}}

MAKERS: dict[Kind, Any] = {
    Kind.POD: pod,
    Kind.NODE: node,
    Kind.NAMESPACE: _flat(Kind.NAMESPACE, {"spec": {}, "status": {"phase": "Active"}}),
    Kind.JOB: job,
    Kind.PRIORITY_CLASS: _flat(
        Kind.PRIORITY_CLASS, {"value": 10, "globalDefault": False, "preemptionPolicy": "PreemptLowerPriority"}
    ),
    Kind.DISRUPTION_BUDGET: _spec_of(
        Kind.DISRUPTION_BUDGET,
        {"minAvailable": "50%", "selector": SELECTOR},
        {
            "disruptionsAllowed": 1,
            "observedGeneration": 1,
            "currentHealthy": 2,
            "desiredHealthy": 1,
            "expectedPods": 2,
            "disruptedPods": {"a": "2026-01-01T00:00:00Z"},
        },
    ),
    Kind.VOLUME_CLAIM: _spec_of(
        Kind.VOLUME_CLAIM,
        {
            "storageClassName": "a",
            "volumeName": "a",
            "accessModes": ["ReadWriteOncePod"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
        {"phase": "Bound"},
    ),
    Kind.VOLUME: _spec_of(
        Kind.VOLUME,
        {
            "csi": {"driver": "d", "volumeHandle": "h"},
            "claimRef": {"name": "a", "namespace": "default", "uid": "uid-persistentvolumeclaims-a"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [NODE_TERM]}},
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
        },
        namespaced=False,
    ),
    Kind.STORAGE_CLASS: _flat(
        Kind.STORAGE_CLASS,
        {
            "provisioner": "d",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["4"]}]}],
        },
    ),
    Kind.CSI_NODE: _spec_of(
        Kind.CSI_NODE,
        {"drivers": [{"name": "d", "nodeID": "x", "allocatable": {"count": 3}, "topologyKeys": ["zone"]}]},
        namespaced=False,
    ),
    Kind.DEVICE_CLAIM: _spec_of(
        Kind.DEVICE_CLAIM,
        {"devices": {}},
        {
            "allocation": {"nodeSelector": {"nodeSelectorTerms": [NODE_TERM]}, "devices": {"results": []}},
            "reservedFor": [{"resource": "pods", "name": "a", "uid": "u"}],
        },
    ),
    Kind.SERVICE: _spec_of(Kind.SERVICE, {"selector": {"app": "a"}}),
    Kind.REPLICATION_CONTROLLER: _spec_of(Kind.REPLICATION_CONTROLLER, {**_REPLICAS, "selector": {"app": "a"}}),
    Kind.REPLICA_SET: _spec_of(Kind.REPLICA_SET, _REPLICAS),
    Kind.STATEFUL_SET: _spec_of(
        Kind.STATEFUL_SET, {**_REPLICAS, "serviceName": "s", "podManagementPolicy": "Parallel"}
    ),
    Kind.DEPLOYMENT: _spec_of(Kind.DEPLOYMENT, _REPLICAS),
    Kind.LIMIT_RANGE: _spec_of(
        Kind.LIMIT_RANGE,
        {
            "limits": [
                {"type": kind, "max": _LIMITS, "min": _LIMITS, "default": _LIMITS, "defaultRequest": _LIMITS}
                for kind in ("Container", "Pod")
            ]
        },
    ),
    Kind.RUNTIME_CLASS: _flat(Kind.RUNTIME_CLASS, {"handler": "h", "overhead": {"podFixed": _LIMITS}}),
    Kind.WORKLOAD: _spec_of(
        Kind.WORKLOAD,
        {
            "podGroups": [
                {
                    "name": "workers",
                    "policy": {"gang": {"minCount": 2, "preemptionMode": "Pod", "topologyKey": "zone"}},
                },
                {"name": "others", "policy": {"basic": {}}},
            ],
            "priorityClassName": "high",
            "preemptionPriorityClassName": "high",
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "a"},
        },
        {"priority": 10, "preemptionPriority": 10, "conditions": [CONDITION]},
    ),
    Kind.POD_GROUP: _spec_of(
        Kind.POD_GROUP,
        {
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "podGroupTemplateRef": {"workload": {"workloadName": "a"}},
            "minMember": 2,
            "priority": 5,
        },
        {"conditions": [CONDITION]},
    ),
    Kind.VOLCANO_POD_GROUP: volcano_pod_group,
    Kind.VOLCANO_QUEUE: volcano_queue,
    Kind.KUEUE_WORKLOAD: queued_workload,
    Kind.CLUSTER_QUEUE: cluster_queue,
    Kind.LOCAL_QUEUE: _spec_of(
        Kind.LOCAL_QUEUE,
        {"clusterQueue": "cq", "stopPolicy": "None", "fairSharing": {"weight": "2"}},
        {
            "conditions": [{**CONDITION, "type": "Active"}],
            "fairSharing": {
                "weightedShare": 0,
                "admissionFairSharingStatus": {
                    "consumedResources": {"cpu": "5"},
                    "lastUpdate": "2026-01-01T00:00:00Z",
                },
            },
        },
    ),
    Kind.COHORT: _spec_of(
        Kind.COHORT,
        {"parentName": "parent", "resourceGroups": quotas("1"), "fairSharing": {"weight": "1"}},
        {"fairSharing": {"weightedShare": 5}},
        namespaced=False,
    ),
    Kind.RESOURCE_FLAVOR: _spec_of(
        Kind.RESOURCE_FLAVOR,
        {
            "nodeLabels": {"zone": "4"},
            "nodeTaints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
            "tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}],
            "topologyName": "",
        },
        namespaced=False,
    ),
    Kind.WORKLOAD_PRIORITY_CLASS: _flat(Kind.WORKLOAD_PRIORITY_CLASS, {"value": 10, "description": "d"}),
    Kind.MULTIKUEUE_CLUSTER: _flat(Kind.MULTIKUEUE_CLUSTER, {"spec": _SOURCE}),
    Kind.MULTIKUEUE_CONFIG: _flat(Kind.MULTIKUEUE_CONFIG, {"spec": {"clusters": ["a", "b"]}}),
    Kind.ADMISSION_CHECK: _spec_of(
        Kind.ADMISSION_CHECK,
        {"controllerName": "c", "parameters": {"apiGroup": "g", "kind": "K", "name": "n"}, "retryDelayMinutes": 5},
        {"conditions": [{**CONDITION, "type": "Active"}]},
        namespaced=False,
    ),
}

USUAL = {
    Kind.VOLCANO_QUEUE: ("q",),
    Kind.NODE: ("n-0", "n-1"),
    Kind.NAMESPACE: ("default",),
    Kind.CLUSTER_QUEUE: ("cq",),
    Kind.LOCAL_QUEUE: ("lq",),
    Kind.RESOURCE_FLAVOR: ("flavor",),
    Kind.WORKLOAD: ("gang",),
    Kind.PRIORITY_CLASS: ("high",),
    Kind.WORKLOAD_PRIORITY_CLASS: ("high",),
    Kind.COHORT: ("cohort",),
}


def well_formed(kind: Kind, dice: Random, name: str = "") -> Json:
    return MAKERS[kind](dice, name or dice.choice((*USUAL.get(kind, ()), "a", "b", "c")))


def hostile(kind: Kind, dice: Random) -> Json:
    return mutated(well_formed(kind, dice), dice)
