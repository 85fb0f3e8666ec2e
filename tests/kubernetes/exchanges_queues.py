"""Exchanges about Kueue's kinds: what their definitions fill in, refuse and keep from changing."""

from __future__ import annotations

from typing import Any

from exchanges import Manifest, Step, container, create, delete, get, merge

API = "/apis/kueue.x-k8s.io/v1beta2"
CLUSTER_QUEUES, COHORTS, FLAVORS = f"{API}/clusterqueues", f"{API}/cohorts", f"{API}/resourceflavors"
CHECKS, CLASSES = f"{API}/admissionchecks", f"{API}/workloadpriorityclasses"
WORKERS, FLEETS = f"{API}/multikueueclusters", f"{API}/multikueueconfigs"
QUEUES, WORKLOADS = f"{API}/namespaces/NS/localqueues", f"{API}/namespaces/NS/workloads"
THE_WORKLOAD = f"{WORKLOADS}/it"
THEN = "2026-01-01T00:00:00Z"


def of_kueue(kind: str, name: str = "NS-it", **rest: Any) -> Manifest:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, **rest}


def cluster_queue(**spec: Any) -> Step:
    return create(of_kueue("ClusterQueue", spec=spec), CLUSTER_QUEUES)


def cohort(**spec: Any) -> Step:
    return create(of_kueue("Cohort", spec=spec), COHORTS)


def flavor(**spec: Any) -> Step:
    return create(of_kueue("ResourceFlavor", spec=spec), FLAVORS)


def check(**spec: Any) -> Step:
    return create(of_kueue("AdmissionCheck", spec=spec), CHECKS)


def worker(**source: Any) -> Step:
    return create(of_kueue("MultiKueueCluster", spec={"clusterSource": source}), WORKERS)


def fleet(**spec: Any) -> Step:
    return create(of_kueue("MultiKueueConfig", spec=spec), FLEETS)


def local_queue(**spec: Any) -> Step:
    return create(of_kueue("LocalQueue", "it", spec=spec), QUEUES)


def workload(**spec: Any) -> Step:
    return create(of_kueue("Workload", "it", spec={"podSets": [pod_set()], **spec}), WORKLOADS)


def pod_set(**fields: Any) -> Manifest:
    return {"template": {"spec": {"containers": [container()]}}, **fields}


def quota(name: str = "cpu", nominal: Any = 4, **limits: Any) -> Manifest:
    return {"name": name, "nominalQuota": nominal, **limits}


def group(*quotas: Manifest, covered: list[str] | None = None, flavors: list[str] | None = None) -> Manifest:
    resources = list(quotas or (quota(),))
    names = [one["name"] for one in resources] if covered is None else covered
    listed = ["spot"] if flavors is None else flavors
    return {"coveredResources": names, "flavors": [{"name": name, "resources": resources} for name in listed]}


def toleration(**fields: Any) -> Step:
    return flavor(tolerations=[fields])


def condition(type_: str, status: str = "True", **rest: Any) -> Manifest:
    return {"type": type_, "status": status, "reason": "Because", "message": "", "lastTransitionTime": THEN, **rest}


def status(**fields: Any) -> Step:
    return merge({"status": fields}, f"{THE_WORKLOAD}/status")


def spec(**fields: Any) -> Step:
    return merge({"spec": fields}, THE_WORKLOAD)


def admission(*names: str, **fields: Any) -> Manifest:
    assignments = [{"name": name, "flavors": {"cpu": "spot"}, "resourceUsage": {"cpu": 1}, **fields} for name in names]
    return {"clusterQueue": "cq", "podSetAssignments": assignments}


def classed(name: str = "high", kind: str = "WorkloadPriorityClass") -> Manifest:
    of = "kueue.x-k8s.io" if kind == "WorkloadPriorityClass" else "scheduling.k8s.io"
    return {"group": of, "kind": kind, "name": name}


RESERVED = status(conditions=[condition("QuotaReserved")], admission=admission("main"))
ADMITTED = status(conditions=[condition("QuotaReserved"), condition("Admitted")], admission=admission("main"))


def placed(**rest: Any) -> Step:
    topology = {"levels": ["rack"], "slices": [{"domainCount": 2, "valuesPerLevel": [{"roots": ["a", "b"]}], **rest}]}
    return status(admission=admission("main", topologyAssignment=topology))


def placed_at(**values: Any) -> Step:
    slices = [{"domainCount": 2, "universalPodCount": 1, "valuesPerLevel": [values]}]
    return status(admission=admission("main", topologyAssignment={"levels": ["rack"], "slices": slices}))


OF_QUEUES: dict[str, list[Step]] = {
    "a cluster queue that says nothing": [cluster_queue(), get(f"{CLUSTER_QUEUES}/NS-it")],
    "a cluster queue without a spec": [create(of_kueue("ClusterQueue"), CLUSTER_QUEUES)],
    "a cluster queue with everything": [
        cluster_queue(
            resourceGroups=[group(quota("cpu", "1500m", borrowingLimit=2, lendingLimit="1"), quota("memory", "1.5Gi"))],
            cohortName="team.a",
            queueingStrategy="StrictFIFO",
            namespaceSelector={"matchExpressions": [{"key": "team", "operator": "In", "values": ["a"]}]},
            flavorFungibility={
                "whenCanBorrow": "TryNextFlavor",
                "whenCanPreempt": "TryNextFlavor",
                "preference": "PreemptionOverBorrowing",
            },
            preemption={
                "withinClusterQueue": "LowerOrNewerEqualPriority",
                "reclaimWithinCohort": "Any",
                "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 100},
            },
            admissionChecksStrategy={"admissionChecks": [{"name": "budget", "onFlavors": ["spot"]}]},
            stopPolicy="Hold",
            fairSharing={},
            admissionScope={"admissionMode": "UsageBasedAdmissionFairSharing"},
            concurrentAdmissionPolicy={
                "migration": {
                    "mode": "TryPreferredFlavors",
                    "constraints": {"lastAcceptableFlavorName": "spot"},
                }
            },
        )
    ],
    "an unknown field of a cluster queue is dropped": [cluster_queue(surprise=1)],
    "borrowing without a cohort": [cluster_queue(resourceGroups=[group(quota(borrowingLimit=1))])],
    "lending without a cohort is left to the webhook": [cluster_queue(resourceGroups=[group(quota(lendingLimit=1))])],
    "a flavor with too few resources": [cluster_queue(resourceGroups=[group(covered=["cpu", "memory"])])],
    "a flavor twice in one group": [cluster_queue(resourceGroups=[group(flavors=["spot", "spot"])])],
    "a resource twice in one flavor": [cluster_queue(resourceGroups=[group(quota(), quota())])],
    "a group without resources": [cluster_queue(resourceGroups=[group(covered=[])])],
    "a group without flavors": [cluster_queue(resourceGroups=[group(flavors=[])])],
    "too many groups": [cluster_queue(resourceGroups=[group(quota(f"r{i}")) for i in range(17)])],
    "quota without an amount": [cluster_queue(resourceGroups=[group({"name": "cpu"})])],
    "quota that is no amount": [cluster_queue(resourceGroups=[group(quota(nominal="much"))])],
    "a flavor with a bad name": [cluster_queue(resourceGroups=[group(flavors=["Spot"])])],
    "a cohort name that is empty": [cluster_queue(cohortName="")],
    "an unknown strategy": [cluster_queue(queueingStrategy="Lottery")],
    "an unknown stop policy": [cluster_queue(stopPolicy="Pause")],
    "a preference between prices that are paid at once": [
        cluster_queue(flavorFungibility={"preference": "BorrowingOverPreemption"}),
        cluster_queue(flavorFungibility={"preference": "BorrowingOverPreemption", "whenCanPreempt": "MayStopSearch"}),
        cluster_queue(flavorFungibility={"preference": "BorrowingOverPreemption", "whenCanBorrow": "TryNextFlavor"}),
    ],
    "preempting while borrowing without reclaiming": [
        cluster_queue(preemption={"borrowWithinCohort": {"policy": "LowerPriority"}})
    ],
    "preempting while borrowing with reclaiming": [
        cluster_queue(preemption={"borrowWithinCohort": {"policy": "LowerPriority"}, "reclaimWithinCohort": "Any"})
    ],
    "a strategy for no admission checks": [cluster_queue(admissionChecksStrategy={"admissionChecks": []})],
    "an admission check twice": [
        cluster_queue(admissionChecksStrategy={"admissionChecks": [{"name": "a"}, {"name": "a"}]})
    ],
    "an admission check for a flavor twice": [
        cluster_queue(admissionChecksStrategy={"admissionChecks": [{"name": "a", "onFlavors": ["spot", "spot"]}]})
    ],
    "a migration of no known mode": [cluster_queue(concurrentAdmissionPolicy={"migration": {"mode": "Both"}})],
    "a migration cannot change": [
        cluster_queue(concurrentAdmissionPolicy={"migration": {"mode": "RetainFirstAdmission"}}),
        merge({"spec": {"concurrentAdmissionPolicy": None}}, f"{CLUSTER_QUEUES}/NS-it"),
        merge(
            {"spec": {"concurrentAdmissionPolicy": {"migration": {"mode": "TryPreferredFlavors"}}}},
            f"{CLUSTER_QUEUES}/NS-it",
        ),
        merge({"spec": {"stopPolicy": "Hold"}}, f"{CLUSTER_QUEUES}/NS-it"),
    ],
    "a cluster queue's status": [
        cluster_queue(),
        merge(
            {
                "status": {
                    "conditions": [condition("Active")],
                    "pendingWorkloads": 1,
                    "reservingWorkloads": 2,
                    "admittedWorkloads": 3,
                    "flavorsUsage": [{"name": "spot", "resources": [{"name": "cpu", "total": "3", "borrowed": 0}]}],
                    "fairSharing": {"weightedShare": 17},
                }
            },
            f"{CLUSTER_QUEUES}/NS-it/status",
        ),
        merge({"spec": {"stopPolicy": "Hold"}}, f"{CLUSTER_QUEUES}/NS-it"),
    ],
    "a cluster queue's status with a bad condition": [
        cluster_queue(),
        merge({"status": {"conditions": [condition("Active", "Maybe")]}}, f"{CLUSTER_QUEUES}/NS-it/status"),
        merge({"status": {"conditions": [condition("Active")] * 2}}, f"{CLUSTER_QUEUES}/NS-it/status"),
        merge({"status": {"fairSharing": {}}}, f"{CLUSTER_QUEUES}/NS-it/status"),
    ],
    "a cohort with a parent and quota of its own": [
        cohort(parentName="NS-root", resourceGroups=[group(quota(borrowingLimit=1))], fairSharing={"weight": "500m"})
    ],
    "a cohort's status": [
        cohort(),
        merge({"status": {"fairSharing": {"weightedShare": 3}}}, f"{COHORTS}/NS-it/status"),
    ],
    "a cohort with too few resources": [cohort(resourceGroups=[group(covered=["cpu", "memory"])])],
    "a local queue": [local_queue(clusterQueue="cq"), get(f"{QUEUES}/it"), delete(f"{QUEUES}/it")],
    "a local queue goes elsewhere": [
        local_queue(clusterQueue="cq"),
        merge({"spec": {"clusterQueue": "other"}}, f"{QUEUES}/it"),
        merge({"spec": {"stopPolicy": "HoldAndDrain", "fairSharing": {"weight": 2}}}, f"{QUEUES}/it"),
    ],
    "a local queue's status": [
        local_queue(clusterQueue="cq"),
        merge(
            {
                "status": {
                    "flavorsReservation": [{"name": "spot", "resources": [{"name": "cpu", "total": "500m"}]}],
                    "fairSharing": {
                        "weightedShare": 0,
                        "admissionFairSharingStatus": {"consumedResources": {"cpu": "3"}, "lastUpdate": THEN},
                    },
                }
            },
            f"{QUEUES}/it/status",
        ),
        merge({"status": {"fairSharing": {"admissionFairSharingStatus": {"lastUpdate": None}}}}, f"{QUEUES}/it/status"),
    ],
    "a flavor": [
        flavor(
            nodeLabels={"pool": "spot"},
            nodeTaints=[{"key": "spot", "value": "true", "effect": "NoSchedule"}],
            tolerations=[{"operator": "Exists"}, {"key": "a", "effect": "NoExecute", "tolerationSeconds": 5}],
        )
    ],
    "a flavor of a topology without labels": [flavor(topologyName="racks")],
    "a flavor of a topology with no labels": [flavor(topologyName="racks", nodeLabels={})],
    "a flavor of a topology cannot change": [
        flavor(topologyName="racks", nodeLabels={"a": "b"}),
        merge({"spec": {"nodeLabels": {"c": "d"}}}, f"{FLAVORS}/NS-it"),
    ],
    "a flavor without a topology can change": [
        flavor(nodeLabels={"a": "b"}),
        merge({"spec": {"nodeLabels": {"c": "d"}}}, f"{FLAVORS}/NS-it"),
    ],
    "a flavor with too many labels": [flavor(nodeLabels={f"l{i}": "" for i in range(9)})],
    "a flavor with a taint of no known effect": [flavor(nodeTaints=[{"key": "a", "effect": "Never"}])],
    "a flavor that tolerates nothing in particular": [toleration(operator="Equal"), toleration(value="a")],
    "a flavor that tolerates any value of one": [toleration(key="a", operator="Exists", value="b")],
    "a flavor that tolerates for a time what never evicts": [toleration(key="a", tolerationSeconds=5)],
    "a workload priority class": [create(of_kueue("WorkloadPriorityClass", value=-5, description="low"), CLASSES)],
    "a workload priority class without a value": [create(of_kueue("WorkloadPriorityClass"), CLASSES)],
    "a workload priority class beyond all numbers": [
        create(of_kueue("WorkloadPriorityClass", value=2**31), CLASSES),
    ],
    "an admission check": [
        check(controllerName="a.b/c", parameters={"apiGroup": "a.b", "kind": "C", "name": "d"}),
        merge({"spec": {"controllerName": "a.b/d"}}, f"{CHECKS}/NS-it"),
        merge({"status": {"conditions": [condition("Active")]}}, f"{CHECKS}/NS-it/status"),
    ],
    "an admission check without a controller": [
        create(of_kueue("AdmissionCheck"), CHECKS),
        check(),
        check(controllerName=""),
    ],
    "an admission check with half of a parameter": [check(controllerName="a", parameters={"kind": "C"})],
}

OF_WORKLOADS: dict[str, list[Step]] = {
    "a workload is completed": [workload(), get(THE_WORKLOAD)],
    "a workload without a spec": [create(of_kueue("Workload", "it"), WORKLOADS)],
    "a workload without pods": [workload(podSets=[])],
    "a workload with too many pod sets": [workload(podSets=[pod_set(name=f"s{i}") for i in range(19)])],
    "a workload with one name twice": [workload(podSets=[pod_set(), pod_set()])],
    "a workload without a template": [workload(podSets=[{"count": 1}])],
    "a workload with a bad count": [workload(podSets=[pod_set(count=-1)])],
    "a workload that may start with fewer": [workload(podSets=[pod_set(count=3, minCount=3)])],
    "a workload that may start with more": [workload(podSets=[pod_set(count=3, minCount=4)])],
    "a workload that may start with none": [workload(podSets=[pod_set(count=3, minCount=0)])],
    "a workload of a class without a priority": [workload(priorityClassRef=classed())],
    "a workload of a class": [workload(priorityClassRef=classed(), priority=5)],
    "a workload of a class of another group": [
        workload(priorityClassRef={**classed(), "group": "scheduling.k8s.io"}, priority=5),
        workload(priorityClassRef={**classed("a", "PriorityClass"), "group": "kueue.x-k8s.io"}, priority=5),
        workload(priorityClassRef={**classed(), "group": "a.b"}, priority=5),
    ],
    "a workload that may not run at all": [workload(maximumExecutionTimeSeconds=0)],
    "a workload with gates": [workload(preemptionGates=[{"name": "a.b/c"}]), spec(preemptionGates=[{"name": ""}])],
    "a workload with too many gates": [workload(preemptionGates=[{"name": f"g{i}"} for i in range(9)])],
    "a workload's whole status": [
        workload(),
        status(
            conditions=[condition("QuotaReserved"), condition("Admitted", "False", observedGeneration=1)],
            admission=admission("main", count=1, delayedTopologyRequest="Pending"),
            requeueState={"count": 1, "requeueAt": THEN},
            reclaimablePods=[{"name": "main", "count": 1}],
            admissionChecks=[
                {
                    "name": "budget",
                    "state": "Retry",
                    "lastTransitionTime": THEN,
                    "message": "",
                    "requeueAfterSeconds": 5,
                    "retryCount": 1,
                    "podSetUpdates": [{"name": "main", "labels": {"a": "b"}, "tolerations": [{"operator": "Exists"}]}],
                }
            ],
            resourceRequests=[{"name": "main", "resources": {"cpu": "500m"}}],
            accumulatedPastExecutionTimeSeconds=7,
            schedulingStats={"evictions": [{"reason": "Preempted", "underlyingCause": "", "count": 1}]},
            nominatedClusterNames=["a", "b"],
            unhealthyNodes=[{"name": "n"}],
            preemptionGates=[{"name": "a.b/c", "position": "Open", "lastTransitionTime": THEN}],
        ),
        status(admission=None, requeueState=None, conditions=[condition("QuotaReserved", "False")]),
    ],
    "an admission of too few pod sets": [
        workload(podSets=[pod_set(), pod_set(name="b")]),
        status(admission=admission("main")),
        RESERVED,
        status(conditions=[condition("QuotaReserved")], admission=admission("main", "b")),
    ],
    "an admission to no queue": [workload(), status(admission={"podSetAssignments": []})],
    "a check in no known state": [
        workload(),
        status(admissionChecks=[{"name": "a", "state": "Maybe", "lastTransitionTime": THEN, "message": ""}]),
    ],
    "the queue of a workload that waits": [workload(queueName="a"), spec(queueName="b")],
    "the queue of a workload with quota": [workload(queueName="a"), RESERVED, spec(queueName="b")],
    "the queue of a workload without one": [workload(), RESERVED, spec(queueName="b")],
    "the class of a workload that waits": [
        workload(priorityClassRef=classed(), priority=5),
        spec(priorityClassRef=classed("low", "PriorityClass")),
        spec(priorityClassRef=None),
    ],
    "the class of a workload with quota": [
        workload(priorityClassRef=classed(), priority=5),
        RESERVED,
        spec(priorityClassRef=None),
        spec(priorityClassRef=classed("high", "PriorityClass")),
        spec(priorityClassRef=classed("low"), priority=1),
    ],
    "the pod class of a workload with quota": [
        workload(priorityClassRef=classed("high", "PriorityClass"), priority=5),
        RESERVED,
        spec(priorityClassRef=classed("low", "PriorityClass")),
        spec(priority=7),
    ],
    "a class for a workload with quota": [workload(), RESERVED, spec(priorityClassRef=classed(), priority=5)],
    "the time of a workload with quota": [workload(), RESERVED, spec(maximumExecutionTimeSeconds=5)],
    "the time of an admitted workload": [workload(), ADMITTED, spec(maximumExecutionTimeSeconds=5), spec(active=False)],
    "the time of a workload is taken back": [
        workload(maximumExecutionTimeSeconds=5),
        ADMITTED,
        spec(maximumExecutionTimeSeconds=None),
        status(conditions=[condition("Admitted", "False")]),
        spec(maximumExecutionTimeSeconds=None),
    ],
    "the cluster of a workload": [
        workload(),
        status(nominatedClusterNames=["a", "b"]),
        status(clusterName="a"),
        status(clusterName="a", nominatedClusterNames=None),
        status(clusterName="b"),
        status(clusterName=None),
        status(clusterName="b"),
    ],
    "too many clusters": [workload(), status(nominatedClusterNames=[f"c{i}" for i in range(21)])],
    "places of pods": [
        workload(),
        placed(podCounts=[1, 2]),
        placed(universalPodCount=1),
        placed(podCounts=[1]),
        placed(podCounts=[1, 2], universalPodCount=1),
        placed(),
        placed_at(universalValue="a"),
        placed_at(universalValue="a", prefix="b"),
        placed_at(universalValue="a", roots=["b", "c"]),
        placed_at(roots=["b"]),
        placed_at(prefix="b"),
    ],
    "a gate neither open nor closed": [
        workload(),
        status(preemptionGates=[{"name": "a", "position": "Ajar", "lastTransitionTime": THEN}]),
        status(preemptionGates=[{"name": "a", "position": "Closed"}]),
        status(preemptionGates=[{"name": "a", "state": "Ajar", "lastTransitionTime": THEN}]),
        status(preemptionGates=[{"name": "a", "lastTransitionTime": THEN}]),
        status(preemptionGates=[{"name": "a", "state": "Open", "lastTransitionTime": THEN}]),
    ],
    "a price of preemption": [
        workload(),
        status(preemptionProposal={"canPreempt": True, "victims": 2, "highestPriority": -1, "runningSince": THEN}),
        status(preemptionProposal={"canPreempt": None}),
        status(preemptionProposal={"victims": -1}),
        status(preemptionProposal={"runningSince": "yesterday"}),
        status(preemptionProposal=None),
    ],
}

OF_FLEETS: dict[str, list[Step]] = {
    "a worker cluster whose kubeconfig is in a Secret": [
        worker(kubeConfig={"location": "secret"}),
        get(f"{WORKERS}/NS-it"),
        merge({"status": {"conditions": [condition("Active")]}}, f"{WORKERS}/NS-it/status"),
        merge({"spec": {"clusterSource": {"kubeConfig": {"locationType": "Path"}}}}, f"{WORKERS}/NS-it"),
    ],
    "worker clusters that are described in no way, in two and in a third": [
        worker(),
        worker(kubeConfig={"location": "secret"}, clusterProfileRef={"name": "profile"}),
        worker(kubeConfig={"location": "secret", "locationType": "Vault"}),
        worker(kubeConfig={"location": ""}),
        create(of_kueue("MultiKueueCluster"), WORKERS),
        worker(clusterProfileRef={"name": "profile"}),
    ],
    "a list of worker clusters": [
        fleet(clusters=["b", "a"]),
        get(f"{FLEETS}/NS-it"),
        merge({"spec": {"clusters": ["a", "a"]}}, f"{FLEETS}/NS-it"),
        merge({"spec": {"clusters": []}}, f"{FLEETS}/NS-it"),
    ],
    "lists that are too long, or whose quota would be looked after": [
        fleet(clusters=[f"w-{number}" for number in range(21)]),
        fleet(clusters=["a"], quotaManagement="Automated"),
        fleet(clusters=["a"], quotaManagement="Manual"),
        create(of_kueue("MultiKueueConfig"), FLEETS),
    ],
}

STRICT, IGNORE, WARN = (f"{COHORTS}?fieldValidation={how}" for how in ("Strict", "Ignore", "Warn"))
MISSPELT = of_kueue("Cohort", spec={"parentname": "a", "resourceGroups": [{**group(), "flavours": []}]}, specs={})
STRICT_COHORT = f"{COHORTS}/NS-it?fieldValidation=Strict"

OF_FIELDS: dict[str, list[Step]] = {
    "unknown fields of a new object": [
        create(MISSPELT, STRICT),
        create(MISSPELT, IGNORE),
        delete(f"{COHORTS}/NS-it"),
        create(MISSPELT, WARN),
        delete(f"{COHORTS}/NS-it"),
        create(MISSPELT, COHORTS),
    ],
    "fields that are asked for strictly and known": [create(of_kueue("Cohort", spec={"parentName": "a"}), STRICT)],
    "an unknown field that a patch adds": [
        cohort(parentName="a"),
        merge({"spec": {"parentname": "b"}}, STRICT_COHORT),
        merge({"spec": {"parentname": "b"}}, f"{COHORTS}/NS-it"),
        merge({"spec": {"parentName": "b"}}, STRICT_COHORT),
    ],
    "unknown fields below others": [
        create(
            of_kueue("Workload", "it", spec={"podSets": [pod_set(counts=1)]}), f"{WORKLOADS}?fieldValidation=Strict"
        ),
    ],
    "fields validated in a way that does not exist": [create(MISSPELT, f"{COHORTS}?fieldValidation=Maybe")],
}

EXCHANGES = {**OF_QUEUES, **OF_WORKLOADS, **OF_FLEETS, **OF_FIELDS}
