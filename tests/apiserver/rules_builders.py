"""Small objects for the rule tables, and the errors a kind's rules find in them as users read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.apiserver import (
    ADMISSION,
    RESOURCE_TYPES,
    Catalog,
    Handler,
    Json,
    Operation,
    ResourceType,
    WebhookAdmission,
)
from headgate.apiserver.admission.chain import ConfiguredPlugin
from headgate.apiserver.field_errors import render

TYPES: dict[str, ResourceType] = {one.kind: one for one in RESOURCE_TYPES}


def container(name: str = "main", **fields: Any) -> Json:
    return {"name": name, "image": "registry.example/none:1", **fields}


def pod(**spec: Any) -> Json:
    metadata = {"name": "it", "namespace": "default", "uid": "u1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container()], **spec}}


def requesting(requests: Json, limits: Json | None = None) -> Json:
    return pod(containers=[container(resources={"requests": requests, "limits": limits or {}})])


def job(template: Json | None = None, **spec: Any) -> Json:
    metadata = {"name": "it", "namespace": "default", "uid": "u1"}
    inner = {"restartPolicy": "Never", "containers": [container()], **(template or {})}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {"template": {"spec": inner}, **spec},
    }


def cluster_wide(kind: str, name: str = "it", **fields: Any) -> Json:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **fields}


def namespaced(kind: str, **fields: Any) -> Json:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "it", "namespace": "default"}, **fields}


def with_metadata(value: Json, **fields: Any) -> Json:
    return {**value, "metadata": {**value["metadata"], **fields}}


def with_spec(value: Json, **fields: Any) -> Json:
    return {**value, "spec": {**value["spec"], **fields}}


def created(value: Json) -> Json:
    """The object as it is stored, admission aside."""
    return TYPES[value["kind"]].rules.prepare_create(value)


def create_errors(value: Json) -> list[str]:
    return [render(error) for error in TYPES[value["kind"]].rules.validate_create(created(value))]


def update_errors(new: Json, old: Json) -> list[str]:
    """Each error once; a server says some of them several times."""
    rules = TYPES[old["kind"]].rules
    errors = rules.validate_update(rules.prepare_update(new, old), old)
    return list(dict.fromkeys(render(error) for error in errors))


def status_errors(status: Json, old: Json) -> list[str]:
    rules = TYPES[old["kind"]].rules
    new = rules.prepare_status({**old, "status": status}, old)
    return [render(error) for error in rules.validate_status(new, old)]


class Stored:
    """A catalog of a few objects, by resource."""

    def __init__(self, **objects: list[Json]) -> None:
        self._objects = objects

    def get(self, resource: str, namespace: str, name: str) -> Json | None:
        found = (one for one in self.list(resource) if one["metadata"]["name"] == name)
        return next(found, None)

    def list(self, resource: str) -> list[Json]:
        return self._objects.get(resource.partition(".")[0], [])

    def versions(self, resource: ResourceType) -> list[str]:
        return [resource.version]


def operation(verb: str, new: Json | None, old: Json | None = None, subresource: str = "") -> Operation:
    value = new or old or {}
    resource, metadata = TYPES[value["kind"]], value["metadata"]
    return Operation(
        verb, resource, subresource, metadata.get("namespace", ""), metadata.get("name", ""), new, old, "someone"
    )


def admitted(verb: str, new: Json, old: Json | None = None, catalog: Stored | None = None) -> Json:
    """As the plugins that no stored object configures leave it."""
    plugins = [plugin for plugin in ADMISSION if not isinstance(plugin, ConfiguredPlugin)]
    for plugin in plugins:
        changed = plugin.mutate(operation(verb, new, old), catalog or Stored())
        assert changed is not None
        new = changed
    for plugin in plugins:
        plugin.validate(operation(verb, new, old), catalog or Stored())
    return new


def mutated(handlers: Mapping[str, Handler], step: Operation, catalog: Catalog) -> Json | None:
    """What the configured webhooks make of the write's object."""
    asked = WebhookAdmission(handlers).applicable(step, catalog)
    return step.new if asked is None else asked.mutate(step, catalog)


def judge(handlers: Mapping[str, Handler], step: Operation, catalog: Catalog) -> None:
    """Refused by the configured webhooks, it raises."""
    asked = WebhookAdmission(handlers).applicable(step, catalog)
    if asked is not None:
        asked.validate(step, catalog)
