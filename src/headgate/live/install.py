"""Installs our manifests by server-side apply, which is idempotent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from headgate.api.install_manifests import (
    OURS,
    OWN_ACCOUNT,
    SYSTEM_CLASS_NAMESPACES,
    Manifest,
    WebhookPlace,
    definitions,
    fleet_rights,
    priority_policy,
    queue_definitions,
    rights,
    tenant_rights,
    volcano_definitions,
    webhook_configurations,
)
from headgate.api.requests import JSON, Call, decode_status
from headgate.live.connection import HttpResponse
from headgate.model.settings import DEFAULT_SCHEDULER_NAME

APPLY = "application/apply-patch+yaml"
MANAGER: Mapping[str, str] = {"fieldManager": "headgate-install", "force": "true"}
"""Not the field manager of `headgate run`, whose CA bundles in the webhook configurations stay."""
PATIENCE, PAUSE = 30.0, 0.2  # seconds for a definition to be established, and between two looks
PLURALS: Mapping[str, str] = {
    "Namespace": "namespaces",
    "ServiceAccount": "serviceaccounts",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "CustomResourceDefinition": "customresourcedefinitions",
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}

_RECORDS = frozenset({"managedFields", "resourceVersion"})

Perform = Callable[[Call], Awaitable[HttpResponse]]


class NotInstalled(Exception):
    """The server did not take a manifest; the text names it and says why."""


class InstallStep(Struct, frozen=True):
    """One manifest, and what became of it: created, changed, unchanged, or left as somebody else made it."""

    manifest: str
    outcome: str


def manifests(
    place: WebhookPlace | None,
    *,
    queues: bool = True,
    volcano: bool = False,
    fleet: bool = False,
    schedulers: Sequence[str] = (DEFAULT_SCHEDULER_NAME,),
    system_classes: Sequence[str] = SYSTEM_CLASS_NAMESPACES,
) -> tuple[Manifest, ...]:
    """All that is to be installed, in order; no webhook configurations without a place to find the webhooks at.

    Without `queues`, only what scheduling needs: nobody's jobs and pods are held back, unless Kueue does. With
    `volcano`, also Volcano's Queues and PodGroups and their validation. With `fleet`, also the rights of a manager
    cluster. Pods of these `schedulers` get the queue-allocation gate they ask for. Classes of the system may be used in
    the namespaces `system_classes`.
    """
    of_kueue: Sequence[Manifest] = queue_definitions() if queues else ()
    of_volcano: Sequence[Manifest] = volcano_definitions() if volcano else ()
    configurations: Sequence[Manifest] = ()
    if place is not None:
        configurations = webhook_configurations(place, queues=queues, volcano=volcano, schedulers=schedulers)
    roles = (*rights(queues=queues), *(fleet_rights() if fleet else ()), *tenant_rights(queues=queues))
    policy = priority_policy(OWN_ACCOUNT, system_classes, queues=queues)
    return (*definitions(), *of_kueue, *of_volcano, *roles, *policy, *configurations)


async def install(
    wanted: Sequence[Manifest], perform: Perform, sleep: Callable[[float], Awaitable[None]]
) -> AsyncIterator[InstallStep]:
    """Tells each step when it is done. Raises NotInstalled and Disconnected."""
    for manifest in wanted:
        yield InstallStep(_called(manifest), await _apply(manifest, perform))
        if manifest["kind"] == "CustomResourceDefinition":
            await _established(manifest, perform, sleep)


async def _apply(manifest: Manifest, perform: Perform) -> str:
    path = _path(manifest)
    found = await perform(Call("GET", path, {}, JSON, b""))
    before = _stored(manifest, found) if found.status != 404 else None
    if before is not None and _is_anothers(manifest, before):
        return _left(manifest, before)
    after = _stored(manifest, await perform(Call("PATCH", path, MANAGER, APPLY, msgspec.json.encode(manifest))))
    if before is None:
        return "created"
    return "unchanged" if _essence(before) == _essence(after) else "changed"


def _is_anothers(manifest: Manifest, found: Manifest) -> bool:
    """One of Kueue's or Volcano's definitions that came from somebody else, most likely from them."""
    return OURS.items() <= _labels(manifest).items() and not OURS.items() <= _labels(found).items()


def _labels(manifest: Manifest) -> Mapping[str, str]:
    return manifest["metadata"].get("labels") or {}


def _left(manifest: Manifest, found: Manifest) -> str:
    wanted = [version["name"] for version in manifest["spec"]["versions"]]
    served = [version["name"] for version in found["spec"]["versions"] if version.get("served")]
    missing = [name for name in wanted if name not in served]
    if missing:
        has = ", ".join(served) or "no version"
        raise NotInstalled(f"{_called(manifest)}: somebody else installed it, and it serves {has}, not {missing[0]}")
    return "left as it is, because somebody else installed it"


async def _established(manifest: Manifest, perform: Perform, sleep: Callable[[float], Awaitable[None]]) -> None:
    for _ in range(int(PATIENCE / PAUSE)):
        found = _stored(manifest, await perform(Call("GET", _path(manifest), {}, JSON, b"")))
        conditions = (found.get("status") or {}).get("conditions") or ()
        if any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions):
            return
        await sleep(PAUSE)
    raise NotInstalled(f"{_called(manifest)}: not established within {PATIENCE:.0f} seconds")


def _stored(manifest: Manifest, answer: HttpResponse) -> Manifest:
    if answer.status not in (200, 201):
        why = decode_status(answer.body).message or f"the server answered {answer.status}"
        raise NotInstalled(f"{_called(manifest)}: {why}")
    stored: Manifest = msgspec.json.decode(answer.body)
    return stored


def _essence(stored: Manifest) -> Manifest:
    """Without what the server only keeps records in."""
    metadata = {name: part for name, part in stored["metadata"].items() if name not in _RECORDS}
    return {**stored, "metadata": metadata, "status": {}}


def _called(manifest: Manifest) -> str:
    metadata = manifest["metadata"]
    where = f"{metadata['namespace']}/" if "namespace" in metadata else ""
    return f"{manifest['kind']} {where}{metadata['name']}"


def _path(manifest: Mapping[str, Any]) -> str:
    version, metadata = manifest["apiVersion"], manifest["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    place = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"{root}{place}/{PLURALS[manifest['kind']]}/{metadata['name']}"
