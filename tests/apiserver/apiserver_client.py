"""A client of the small Kubernetes for tests: values in, values out, and time that stands still unless moved."""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.apiserver import ApiServer, Json, Request, Response

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
NAMESPACES = "/api/v1/namespaces"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Client:
    def __init__(self, server: ApiServer | None = None) -> None:
        self.server = server or ApiServer()
        self.now = 1_000.0

    def ask(self, method: str, path: str, value: Any = None, content_type: str = "application/json") -> Response:
        """Send a request; a query may follow the path after a question mark."""
        path, _, rest = path.partition("?")
        query = dict(part.split("=", 1) for part in rest.split("&") if part)
        body = b"" if value is None else value if isinstance(value, bytes) else msgspec.json.encode(value)
        return self.server.handle(Request(method, path, query, body, content_type), self.now)

    def create(self, path: str, value: Json) -> Json:
        return accepted(self.ask("POST", path, value))

    def get(self, path: str) -> Json:
        return accepted(self.ask("GET", path))

    def patch(self, path: str, value: Any, content_type: str = MERGE) -> Json:
        return accepted(self.ask("PATCH", path, value, content_type))

    def delete(self, path: str, options: Json | None = None) -> Json:
        return accepted(self.ask("DELETE", path, options))

    def exists(self, path: str) -> bool:
        return self.ask("GET", path).code == 200

    def names(self, path: str) -> list[str]:
        return [item["metadata"]["name"] for item in self.get(path)["items"]]


def accepted(response: Response) -> Json:
    assert response.code in (200, 201), response.value
    return response.value


def refused(response: Response) -> tuple[int, str, str]:
    """Code, reason and message of a request that must not succeed."""
    assert response.value["status"] == "Failure", response.value
    assert response.value["code"] == response.code
    return response.code, response.value.get("reason", ""), response.value["message"]


def pod(name: str = "a", *, labels: Json | None = None, gates: tuple[str, ...] = (), **spec: Any) -> Json:
    containers = [{"name": "main", "image": "example.com/image:1"}]
    whole = {"containers": containers, "schedulingGates": [{"name": gate} for gate in gates], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels or {}}, "spec": whole}


def config_map(name: str = "a", data: Json | None = None, **metadata: Any) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": data or {}}


def namespace(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def owner(value: Json, **more: Any) -> Json:
    """A reference to the owner as its dependents carry it."""
    named = {"name": value["metadata"]["name"], "uid": value["metadata"]["uid"]}
    return {"apiVersion": value["apiVersion"], "kind": value["kind"], **named, **more}


def binding(node: str = "n-1", **metadata: str) -> Json:
    return {"metadata": metadata, "target": {"kind": "Node", "name": node}}
