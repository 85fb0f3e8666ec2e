"""Manifests the tests use, and many of them at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from wire import Client

Manifest = dict[str, Any]
NODES = "/api/v1/nodes"
NAMESPACES = "/api/v1/namespaces"


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
    """Delete every object of a collection at once, without grace."""
    await client.delete(f"{collection}?gracePeriodSeconds=0")
