"""Manifests the tests use, and many of them at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from children import eventually_asked
from wire import MERGE_PATCH, Client

Manifest = dict[str, Any]
NODES = "/api/v1/nodes"
NAMESPACES = "/api/v1/namespaces"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def collection(manifest: Manifest) -> str:
    kind, group, home = manifest["kind"].lower(), manifest["apiVersion"], manifest["metadata"].get("namespace")
    root = f"/apis/{group}" if "/" in group else f"/api/{group}"
    plural = f"{kind}es" if kind.endswith("s") else f"{kind}s"
    return f"{root}/namespaces/{home}/{plural}" if home else f"{root}/{plural}"


def place(manifest: Manifest) -> str:
    return f"{collection(manifest)}/{manifest['metadata']['name']}"


def pods_path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def node(name: str, cpu: str = "4", **spec: Any) -> Manifest:
    """A node as a healthy kubelet registers it."""
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": spec,
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }


def pod(name: str, cpu: str = "100m", scheduler: str = "headgate", **spec: Any) -> Manifest:
    container = {"name": "main", "image": "registry.example/none", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"schedulerName": scheduler, "containers": [container], **spec},
    }


async def create_nodes(client: Client, nodes: Iterable[Manifest]) -> None:
    """Create nodes that are ready for pods."""

    async def create(manifest: Manifest) -> None:
        await client.create(NODES, manifest)
        # Admission taints every new node as not ready; on a whole cluster the node controller takes that off.
        await client.patch(
            f"{NODES}/{manifest['metadata']['name']}", {"spec": {"taints": manifest["spec"].get("taints")}}
        )

    await asyncio.gather(*map(create, nodes))


async def create_pods(client: Client, namespace: str, pods: Iterable[Manifest]) -> None:
    await asyncio.gather(*(client.create(pods_path(namespace), manifest) for manifest in pods))


async def create_with_status(client: Client, manifest: Manifest) -> None:
    """What a controller would have written there is written by us."""
    await client.create(collection(manifest), manifest)
    if "status" in manifest:
        await client.patch(f"{place(manifest)}/status", {"status": manifest["status"]})


async def create_namespace(client: Client, name: str) -> None:
    await client.create(NAMESPACES, {"metadata": {"name": name}})


async def remove_all(client: Client, collection: str) -> None:
    """Delete every object of a collection at once, without grace. A server may run out of time on the way."""

    async def removed() -> bool:
        return (await client.request("DELETE", f"{collection}?gracePeriodSeconds=0")).code < 300

    await eventually_asked(f"{collection} is empty", removed)


async def clear(client: Client, *collections: str) -> None:
    """Delete every object of these with whatever finalizers it has; returns when all are gone."""
    for each in collections:
        await eventually_asked(f"{each} is empty", partial(_found_empty, client, each))


async def _found_empty(client: Client, collection: str) -> bool:
    """Whether nothing is there; what is there is deleted, if nobody who is asked about it objects."""
    found = (await client.get(collection))["items"]
    root, _, plural = collection.rpartition("/")
    for metadata in (each["metadata"] for each in found):
        home = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
        path = f"{root.partition('/namespaces/')[0]}{home}/{plural}/{metadata['name']}"
        await client.request("DELETE", f"{path}?gracePeriodSeconds=0")
        if metadata.get("finalizers"):
            await client.request("PATCH", path, {"metadata": {"finalizers": None}}, MERGE_PATCH)
    return not found


@asynccontextmanager
async def priority_classes(client: Client, *classes: Manifest) -> AsyncIterator[None]:
    """They are there while the context lasts: the server's admission, which learns of them from a watch, knows them."""
    names = [each["metadata"]["name"] for each in classes]
    try:
        for each in classes:
            await client.create(CLASSES, each)
        await _until_named(client, names, 201)
        yield
    finally:
        await forget_classes(client, names)


async def forget_classes(client: Client, names: Sequence[str]) -> None:
    """Delete these priority classes, as far as they are there; returns when admission knows none of them any more."""
    for name in names:
        await client.request("DELETE", f"{CLASSES}/{name}")
    await _until_named(client, names, 403)


async def _until_named(client: Client, names: Iterable[str], code: int) -> None:
    """Until a pod that names one of these classes is answered so."""

    async def is_so(asking: Manifest) -> bool:
        return (await client.request("POST", f"{pods_path('default')}?dryRun=All", asking)).code == code

    for name in names:
        probe = pod("probe", priorityClassName=name)
        await eventually_asked(f"a pod of class {name} is answered {code}", partial(is_so, probe))
