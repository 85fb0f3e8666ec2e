"""Client libraries that others wrote, on the small Kubernetes: they list, watch, patch, and list again after a 410."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import kubernetes
import lightkube
import pytest
from kubernetes.client.exceptions import ApiException
from kubernetes.informer import SharedInformer
from lightkube.core.exceptions import ApiError
from lightkube.models.core_v1 import Container, PodSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap, Pod
from lightkube.types import CascadeType, OnErrorAction, OnErrorResult, PatchType
from wire_client import MAPS, Wire, config_map, wired

from headgate.apiserver.messages import Request
from headgate.apiserver.server import ApiServer

KEPT = 20  # changes
PATIENCE = 60.0  # seconds
MANY = 3 * KEPT


@asynccontextmanager
async def forgetful(tmp_path: Path) -> AsyncIterator[Wire]:
    """A server that remembers few changes."""
    async with wired(ApiServer(history=KEPT), tmp_path / "kubeconfig") as wire:
        yield wire


def change_much(wire: Wire, name: str) -> None:
    """More than is remembered, at once, so that every open watch is too late."""
    merge = "application/merge-patch+json"
    for number in range(MANY):
        patch = b'{"data":{"k":"%d"}}' % number
        assert wire.server.handle(Request("PATCH", f"{MAPS}/{name}", {}, patch, merge), 0.0).code == 200
    wire.front.inform()


def core(wire: Wire) -> kubernetes.client.CoreV1Api:
    return kubernetes.client.CoreV1Api(kubernetes.config.new_client_from_config(str(wire.file)))


async def test_the_official_client_creates_pages_patches_watches_and_deletes(tmp_path):
    def use(api: kubernetes.client.CoreV1Api) -> None:
        made = {"metadata": {"generateName": "m-"}, "data": {"k": "v"}}
        names = [api.create_namespaced_config_map("default", made).metadata.name for _ in range(5)]
        page = api.list_namespaced_config_map("default", limit=2)
        listed = [item.metadata.name for item in page.items]
        while page.metadata._continue:
            page = api.list_namespaced_config_map("default", limit=2, _continue=page.metadata._continue)
            listed += [item.metadata.name for item in page.items]
        assert sorted(names) == [name for name in listed if name in names]
        api.patch_namespaced_config_map(names[0], "default", {"data": {"k": "w"}})
        watch = kubernetes.watch.Watch()
        since = {"resource_version": page.metadata.resource_version, "timeout_seconds": 10}
        for event in watch.stream(api.list_namespaced_config_map, "default", **since):
            assert (event["type"], event["object"].data) == ("MODIFIED", {"k": "w"})
            watch.stop()
        with pytest.raises(ApiException) as refused:
            api.create_namespaced_config_map("default", {"metadata": {"name": names[0]}})
        assert refused.value.status == 409
        api.delete_namespaced_config_map(names[0], "default")
        with pytest.raises(ApiException) as refused:
            api.read_namespaced_config_map(names[0], "default")
        assert refused.value.status == 404

    async with forgetful(tmp_path) as wire:
        await asyncio.to_thread(lambda: use(core(wire)))


async def test_the_informer_of_the_official_client_lists_again_after_a_410(tmp_path):
    async with forgetful(tmp_path) as wire:
        await wire.ask("POST", MAPS, config_map("a"))
        seen: queue.Queue[tuple[str, str]] = queue.Queue()
        informer = SharedInformer(core(wire).list_namespaced_config_map, namespace="default")
        for kind in ("ADDED", "MODIFIED"):
            informer.add_event_handler(kind, lambda found, kind=kind: seen.put((kind, found.data["k"])))
        informer.start()
        try:
            assert await asyncio.to_thread(seen.get, timeout=PATIENCE) == ("ADDED", "x")
            await wire.ask("PATCH", f"{MAPS}/a", b'{"data":{"k":"y"}}', Content_Type="application/merge-patch+json")
            assert await asyncio.to_thread(until, seen, "y"), "it watches"
            change_much(wire, "a")
            assert await asyncio.to_thread(until, seen, str(MANY - 1)), "it has listed again"
        finally:
            stopping = asyncio.ensure_future(asyncio.to_thread(informer.stop))
            while not stopping.done():  # it looks up from its watch when something comes
                await wire.ask("POST", MAPS, b'{"metadata":{"generateName":"last-"},"data":{"k":"z"}}')
            await stopping


def until(seen: queue.Queue[tuple[str, str]], content: str) -> bool:
    while seen.get(timeout=PATIENCE)[1] != content:
        pass
    return True


async def test_lightkube_creates_patches_and_deletes(tmp_path):
    async with forgetful(tmp_path) as wire:
        client = lightkube.AsyncClient(config=lightkube.KubeConfig.from_file(wire.file))
        spec = PodSpec(containers=[Container(name="c", image="busybox")])
        await client.create(Pod(metadata=ObjectMeta(name="p", namespace="default"), spec=spec))
        for kind, patch in (
            (PatchType.MERGE, {"metadata": {"labels": {"a": "1"}}}),
            (PatchType.STRATEGIC, {"metadata": {"labels": {"b": "2"}}}),
            (PatchType.JSON, [{"op": "add", "path": "/metadata/labels/c", "value": "3"}]),
        ):
            await client.patch(Pod, "p", patch, namespace="default", patch_type=kind)
        (found,) = [each async for each in client.list(Pod, namespace="default", labels={"a": "1", "b": "2", "c": "3"})]
        assert found.spec is not None and found.spec.containers[0].image == "busybox"
        await client.delete(Pod, "p", namespace="default", grace_period=0, cascade=CascadeType.BACKGROUND)
        with pytest.raises(ApiError) as refused:
            await client.get(Pod, "p", namespace="default")
        assert refused.value.status.code == 404


async def test_lightkube_watches_and_begins_anew_after_a_410(tmp_path):
    async with forgetful(tmp_path) as wire:
        await wire.ask("POST", MAPS, config_map("a"))
        client = lightkube.AsyncClient(config=lightkube.KubeConfig.from_file(wire.file))
        lost: list[int] = []

        def on_error(error: Exception, _count: int) -> OnErrorResult:
            lost.append(error.status.code if isinstance(error, ApiError) else 0)
            return OnErrorResult(OnErrorAction.RETRY)

        async with asyncio.timeout(PATIENCE):
            async for _, found in client.watch(ConfigMap, namespace="default", on_error=on_error):
                assert found.data is not None
                if found.data["k"] == str(MANY - 1):
                    break
                if found.data["k"] == "x":
                    change_much(wire, "a")
        assert 410 in lost
