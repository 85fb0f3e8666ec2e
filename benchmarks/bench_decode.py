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


def main() -> None:
    raw = json.dumps(pod_manifest(), separators=(",", ":")).encode()
    ours = min(timeit.repeat(lambda: decode(Kind.POD, raw), number=TIMES, repeat=ROUNDS)) / TIMES
    plain = min(timeit.repeat(lambda: json.loads(raw), number=TIMES, repeat=ROUNDS)) / TIMES
    print(f"pod of {len(raw)} bytes: decode {ours * 1e6:.1f} us, json.loads {plain * 1e6:.1f} us")
    print(f"decode takes {ours / plain:.2f} of the time of json.loads")


if __name__ == "__main__":
    main()
