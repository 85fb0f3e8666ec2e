"""How long decoding a pod takes, beside plain `json.loads` of the same bytes in the same run."""

from __future__ import annotations

import json
import timeit
from typing import Any

from headgate.api.decode import decode
from headgate.model.keys import Kind

ROUNDS = 5
TIMES = 4000


def pod_manifest(index: int = 0) -> dict[str, Any]:
    """An ordinary pod of a Job of about 4 KB, as an API server sends it."""
    token = {"name": f"kube-api-access-{index:05d}", "projected": {"defaultMode": 420, "sources": [{}, {}, {}]}}
    mount = {"name": token["name"], "mountPath": "/var/run/secrets", "readOnly": True}
    fields: dict[str, Any] = {f"f:field-{number}": {"f:name": {}, "f:value": {}} for number in range(46)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"train-{index:05d}",
            "namespace": "default",
            "uid": f"7e0f6a5e-0000-4000-8000-{index:012d}",
            "resourceVersion": str(1000 + index),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"job-name": "train", "app": "trainer", "batch.kubernetes.io/job-name": "train"},
            "annotations": {"headgate.dev/run-seconds": "60"},
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job-uid", "controller": True}
            ],
            "managedFields": [{"manager": "controller", "operation": "Update", "fieldsV1": fields}],
        },
        "spec": {
            "volumes": [token],
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/train:1",
                    "command": ["python", "-m", "train", "--epochs", "10"],
                    "env": [{"name": f"VARIABLE_{number}", "value": "x" * 20} for number in range(10)],
                    "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
                    "volumeMounts": [mount],
                    "imagePullPolicy": "IfNotPresent",
                }
            ],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "nodeSelector": {"pool": "batch"},
            "schedulerName": "headgate",
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{key}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for key in ("not-ready", "unreachable")
            ],
            "priority": 0,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {
            "phase": "Pending",
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                    "reason": "Unschedulable",
                    "message": "0/10 nodes are available",
                }
            ],
            "qosClass": "Burstable",
        },
    }


def demanding_manifest(index: int = 0) -> dict[str, Any]:
    """The same pod, of a template that keeps its pods apart and spreads them over zones."""
    pod = pod_manifest(index)
    selector = {"matchLabels": {"app": "trainer"}}
    apart = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
    pod["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    pod["spec"]["topologySpreadConstraints"] = [spread]
    return pod


def workload_manifest(index: int = 0) -> dict[str, Any]:
    """A Workload in the queue, in one of many versions: its status says another thing in each."""
    template = {"metadata": {"labels": {"app": "trainer"}}, "spec": pod_manifest()["spec"]}
    waiting = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": f"{index} more needed"}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {**pod_manifest()["metadata"], "resourceVersion": str(1000 + index)},
        "spec": {"queueName": "main", "podSets": [{"name": "main", "count": 3, "template": template}]},
        "status": {"conditions": [{**waiting, "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    }


def job_manifest(index: int = 0) -> dict[str, Any]:
    """A Job in one of many versions."""
    template = {"metadata": {"labels": {"app": "trainer"}}, "spec": pod_manifest()["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**pod_manifest()["metadata"], "resourceVersion": str(1000 + index), "ownerReferences": []},
        "spec": {"parallelism": 20, "completions": 20, "suspend": False, "template": template},
        "status": {"active": 20 - index % 20, "succeeded": index % 20, "startTime": "2026-01-01T00:00:00Z"},
    }


def compare(title: str, kind: Kind, manifests: list[dict[str, Any]]) -> None:
    raws = [json.dumps(each, separators=(",", ":")).encode() for each in manifests]
    times = TIMES // len(raws)
    ours = min(timeit.repeat(lambda: [decode(kind, raw) for raw in raws], number=times, repeat=ROUNDS))
    plain = min(timeit.repeat(lambda: [json.loads(raw) for raw in raws], number=times, repeat=ROUNDS))
    each = 1e6 / times / len(raws)
    print(f"{title} of {len(raws[0])} bytes: decode {ours * each:.1f} us, json.loads {plain * each:.1f} us")
    print(f"decode takes {ours / plain:.2f} of the time of json.loads")


def main() -> None:
    compare("pod", Kind.POD, [pod_manifest()])
    compare("pods of one template with affinity", Kind.POD, [demanding_manifest(index) for index in range(20)])
    compare("Workload in many versions", Kind.KUEUE_WORKLOAD, [workload_manifest(index) for index in range(20)])
    compare("Job in many versions", Kind.JOB, [job_manifest(index) for index in range(20)])


if __name__ == "__main__":
    main()
