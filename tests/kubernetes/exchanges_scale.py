"""Exchanges about the replicas of workloads and the tokens of service accounts."""

from __future__ import annotations

from typing import Any

from exchanges import Manifest, Step, container, create, get, json_patch, merge, strategic

DEPLOYMENTS = "/apis/apps/v1/namespaces/NS/deployments"
SETS = "/apis/apps/v1/namespaces/NS/replicasets"
STATEFUL = "/apis/apps/v1/namespaces/NS/statefulsets"
ACCOUNTS = "/api/v1/namespaces/NS/serviceaccounts"
SCALE = f"{DEPLOYMENTS}/it/scale"


def workload(kind: str, **spec: Any) -> Manifest:
    template = {"metadata": {"labels": {"app": "it"}}, "spec": {"containers": [container()]}}
    whole = {"selector": {"matchLabels": {"app": "it"}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "it"}, "spec": whole}


def scale(replicas: Any, **metadata: Any) -> Manifest:
    identity = {"apiVersion": "autoscaling/v1", "kind": "Scale"}
    return {**identity, "metadata": {"name": "it", "namespace": "NS", **metadata}, "spec": {"replicas": replicas}}


def token(path: str = f"{ACCOUNTS}/it/token", **fields: Any) -> Step:
    return create({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", **fields}, path)


DEPLOYED = create(workload("Deployment"), f"{DEPLOYMENTS}?fieldManager=maker")
ACCOUNT = create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "it"}}, ACCOUNTS)

EXCHANGES: dict[str, list[Step]] = {
    "a deployment is created": [DEPLOYED, get(f"{DEPLOYMENTS}/it")],
    "a replica set is created": [create(workload("ReplicaSet"), SETS)],
    "a stateful set is created": [create(workload("StatefulSet", serviceName="it"), STATEFUL)],
    "the scale of a deployment": [DEPLOYED, get(SCALE)],
    "the scale of a replica set": [create(workload("ReplicaSet", replicas=4), SETS), get(f"{SETS}/it/scale")],
    "the scale of a stateful set": [
        create(workload("StatefulSet", serviceName="it"), STATEFUL),
        get(f"{STATEFUL}/it/scale"),
    ],
    "a deployment is scaled by a merge patch": [
        DEPLOYED,
        merge({"spec": {"replicas": 3}}, f"{SCALE}?fieldManager=scaler"),
        get(f"{DEPLOYMENTS}/it"),
        get(SCALE),
    ],
    "a deployment is scaled to nothing": [DEPLOYED, merge({"spec": {"replicas": 0}}, SCALE)],
    "a deployment is scaled by a JSON patch": [
        DEPLOYED,
        json_patch({"op": "replace", "path": "/spec/replicas", "value": 2}, path=SCALE),
    ],
    "a deployment is scaled by a strategic patch": [DEPLOYED, strategic({"spec": {"replicas": 2}}, SCALE)],
    "a deployment is scaled by an update": [DEPLOYED, Step("PUT", SCALE, scale(5)), get(f"{DEPLOYMENTS}/it")],
    "a scale that is dry": [DEPLOYED, merge({"spec": {"replicas": 3}}, f"{SCALE}?dryRun=All"), get(SCALE)],
    "a negative scale": [DEPLOYED, merge({"spec": {"replicas": -1}}, SCALE)],
    "a scale of another name": [DEPLOYED, Step("PUT", SCALE, scale(5, name="other"))],
    "a scale of another version": [DEPLOYED, Step("PUT", SCALE, scale(5, resourceVersion="1"))],
    "a scale of another incarnation": [DEPLOYED, Step("PUT", SCALE, scale(5, uid="other"))],
    "a scale of nothing": [get(SCALE)],
    "nothing is scaled": [merge({"spec": {"replicas": 3}}, SCALE)],
    "a scale is deleted": [DEPLOYED, Step("DELETE", SCALE)],
    "a pod has no scale": [get("/api/v1/namespaces/NS/pods/it/scale")],
    "a scaled field and an apply": [
        DEPLOYED,
        merge({"spec": {"replicas": 3}}, f"{SCALE}?fieldManager=scaler"),
        Step(
            "PATCH",
            f"{DEPLOYMENTS}/it?fieldManager=applier",
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "it"}, "spec": {"replicas": 2}},
            "application/apply-patch+yaml",
        ),
    ],
    "replicas that nobody manages are scaled": [
        Step(
            "PATCH",
            f"{DEPLOYMENTS}/it?fieldManager=applier",
            workload("Deployment"),
            "application/apply-patch+yaml",
        ),
        merge({"spec": {"replicas": 3}}, f"{SCALE}?fieldManager=scaler"),
        get(f"{DEPLOYMENTS}/it"),
    ],
    "a token": [ACCOUNT, token()],
    "a token for an hour and a half": [ACCOUNT, token(spec={"expirationSeconds": 5400})],
    "a token for others": [ACCOUNT, token(spec={"audiences": ["a", "b"]})],
    "a token for too short": [ACCOUNT, token(spec={"expirationSeconds": 60})],
    "a token for too long": [ACCOUNT, token(spec={"expirationSeconds": 2**33})],
    "a token of nobody": [token()],
    "a token of another name": [ACCOUNT, token(metadata={"name": "other"})],
    "a token of another namespace": [ACCOUNT, token(metadata={"namespace": "other"})],
    "a token is read": [ACCOUNT, get(f"{ACCOUNTS}/it/token")],
}
