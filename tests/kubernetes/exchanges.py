"""Requests in the form the two API servers are compared by: NS stands for the namespace of the exchange."""

from __future__ import annotations

from typing import Any, NamedTuple

from wire import JSON_PATCH, MERGE_PATCH

PODS = "/api/v1/namespaces/NS/pods"
NODES = "/api/v1/nodes"
JOBS = "/apis/batch/v1/namespaces/NS/jobs"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
BUDGETS = "/apis/policy/v1/namespaces/NS/poddisruptionbudgets"
STRATEGIC = "application/strategic-merge-patch+json"

Manifest = dict[str, Any]


class Step(NamedTuple):
    """One request. UID and VERSION in the body stand for those of the object the first step created."""

    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"


def container(**fields: Any) -> Manifest:
    return {"name": "main", "image": "registry.example/none", **fields}


def pod(name: str = "it", **spec: Any) -> Manifest:
    metadata = {"name": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container()], **spec}}


def requesting(requests: Any, limits: Any = None) -> Manifest:
    resources = {"requests": requests} if limits is None else {"requests": requests, "limits": limits}
    return pod(containers=[container(resources=resources)])


def job(name: str = "it", template: Manifest | None = None, **spec: Any) -> Manifest:
    inner = template or {"spec": {"restartPolicy": "Never", "containers": [container()]}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": inner, **spec}}


def priority_class(name: str, value: Any, **fields: Any) -> Manifest:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**kind, "metadata": {"name": name}, "value": value, **fields}


def node(name: str = "NS-node", **spec: Any) -> Manifest:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec}


def with_metadata(manifest: Manifest, **fields: Any) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], **fields}}


def create(manifest: Any, path: str = PODS) -> Step:
    return Step("POST", path, manifest)


def get(path: str) -> Step:
    return Step("GET", path)


def merge(change: Any, path: str = f"{PODS}/it") -> Step:
    return Step("PATCH", path, change, MERGE_PATCH)


def json_patch(*operations: Any, path: str = f"{PODS}/it") -> Step:
    return Step("PATCH", path, list(operations), JSON_PATCH)


def strategic(change: Any, path: str = f"{PODS}/it") -> Step:
    return Step("PATCH", path, change, STRATEGIC)


def delete(path: str = f"{PODS}/it", **options: Any) -> Step:
    kind = {"apiVersion": "v1", "kind": "DeleteOptions"}
    return Step("DELETE", path, {**kind, **options} if options else None)


def bind(name: str = "it", to: Any = "NS-node", **metadata: Any) -> Step:
    target = {"apiVersion": "v1", "kind": "Node", "name": to} if isinstance(to, str) else to
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **metadata}, "target": target}
    return Step("POST", f"{PODS}/{name}/binding", binding)
