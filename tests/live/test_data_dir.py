"""What outlives an API server with a data directory."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import stat
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from durable_server import killed_often
from wire_client import MAPS, PATIENCE, Wire, config_map, events

from headgate.api.install_manifests import queue_definitions
from headgate.apiserver.messages import Request
from headgate.apiserver.server import ApiServer
from headgate.live import data_dir
from headgate.live.api_credentials import write_private
from headgate.live.api_front import served
from headgate.live.data_dir import CannotSave, DataDir, InvalidDataDir, opened
from headgate.live.http_server import Listen

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FLAVORS = "/apis/kueue.x-k8s.io/v1beta2/resourceflavors"


@asynccontextmanager
async def durable(folder: Path) -> AsyncIterator[Wire]:
    """A server on the data in the folder."""
    with opened(folder / "data") as data:
        server = ApiServer(saved=data.load())
        async with served(server, Listen("127.0.0.1", 0), data=data) as api:
            keeping = asyncio.ensure_future(api.keep())
            write_private(folder / "kubeconfig", api.administrator.kubeconfig(api.url, "test"))
            yield Wire(folder / "kubeconfig", server)
            keeping.cancel()


async def test_nothing_acknowledged_is_missing_after_kills_in_a_storm_of_writes(tmp_path):
    await killed_often(tmp_path, times=2, count=200)


async def test_objects_versions_and_credentials_are_those_of_before(tmp_path):
    async with durable(tmp_path) as wire:
        token = wire.token
        for name in ("a", "b", "c"):
            await wire.ask("POST", MAPS, config_map(name))
        await wire.ask("DELETE", f"{MAPS}/b")
        before = json.loads((await wire.ask("GET", MAPS))[2])
    async with durable(tmp_path) as wire:
        assert wire.token == token
        assert json.loads((await wire.ask("GET", MAPS))[2]) == before
        _, _, made = await wire.ask("POST", MAPS, config_map("d"))
    assert int(json.loads(made)["metadata"]["resourceVersion"]) > int(before["metadata"]["resourceVersion"])


async def test_a_watch_resumes_where_it_was(tmp_path):
    async with durable(tmp_path) as wire:
        _, _, first = await wire.ask("POST", MAPS, config_map("a"))
        labelled = json.dumps({"metadata": {"labels": {"x": "y"}}}).encode()
        merge = {"Content_Type": "application/merge-patch+json"}
        await wire.ask("PATCH", f"{MAPS}/a", labelled, **merge)
        await wire.ask("PATCH", f"{MAPS}/a", b'{"metadata":{"labels":null}}', **merge)
        await wire.ask("DELETE", f"{MAPS}/a")
    version = json.loads(first)["metadata"]["resourceVersion"]
    async with durable(tmp_path) as wire:
        async with wire.watch(f"{MAPS}?watch=true&resourceVersion={version}") as reader:
            told = await events(reader, 3)
        assert [event["type"] for event in told] == ["MODIFIED", "MODIFIED", "DELETED"]
        async with wire.watch(f"{MAPS}?watch=true&resourceVersion={version}&labelSelector=x%3Dy") as reader:
            told = await events(reader, 2)
        assert [event["type"] for event in told] == ["ADDED", "DELETED"], "what an object was before is known, too"


async def test_a_watch_from_before_the_changes_that_are_kept_is_told_so(tmp_path, monkeypatch):
    monkeypatch.setattr(data_dir, "KEPT", 10)
    async with durable(tmp_path) as wire:
        for number in range(1100):
            wire.server.handle(Request("POST", MAPS, body=config_map(f"m-{number}")), 0.0)
        _, _, made = await wire.ask("POST", MAPS, config_map("last"))
    async with durable(tmp_path) as wire:
        code, _, body = await wire.ask("GET", f"{MAPS}?watch=true&resourceVersion=5")
        assert (code, json.loads(body)["reason"]) == (410, "Expired")
        version = int(json.loads(made)["metadata"]["resourceVersion"]) - 1
        async with wire.watch(f"{MAPS}?watch=true&resourceVersion={version}") as reader:
            assert (await events(reader, 1))[0]["object"]["metadata"]["name"] == "last"


async def test_custom_resources_are_served_and_owners_are_known_after_a_restart(tmp_path):
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "f"}}
    async with durable(tmp_path) as wire:
        for definition in queue_definitions():
            assert (await wire.ask("POST", DEFINITIONS, json.dumps(definition).encode()))[0] == 201
        await wire.ask("POST", FLAVORS, json.dumps(flavor).encode())
        _, _, owner = await wire.ask("POST", MAPS, config_map("owner"))
        uid = json.loads(owner)["metadata"]["uid"]
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
        dependent = json.loads(config_map("dependent"))
        dependent["metadata"]["ownerReferences"] = [reference]
        await wire.ask("POST", MAPS, json.dumps(dependent).encode())
        _, _, definitions = await wire.ask("GET", DEFINITIONS)
    async with durable(tmp_path) as wire:
        assert (await wire.ask("GET", f"{FLAVORS}/f"))[0] == 200
        assert (await wire.ask("GET", DEFINITIONS))[2] == definitions, "nothing is written anew at the start"
        await wire.ask("DELETE", f"{MAPS}/owner")
        assert (await wire.ask("GET", f"{MAPS}/dependent"))[0] == 404


async def test_nothing_is_shown_that_is_not_committed(tmp_path, monkeypatch):
    """Neither the answer nor an event comes while the disk is slow, and both come when it is done."""
    goes_on, save = threading.Event(), DataDir.save
    async with durable(tmp_path) as wire, wire.watch(f"{MAPS}?watch=true") as reader:

        def slow(self, *rows):
            assert goes_on.wait(PATIENCE)
            save(self, *rows)

        monkeypatch.setattr(DataDir, "save", slow)
        asking = asyncio.ensure_future(wire.ask("POST", MAPS, config_map("a")))
        told = asyncio.ensure_future(events(reader, 1))
        reading = asyncio.ensure_future(wire.ask("GET", f"{MAPS}/a"))
        async with asyncio.timeout(PATIENCE):
            while wire.server.version < 2 or not await is_stored(wire):
                await asyncio.sleep(0)
        assert not asking.done() and not told.done()
        goes_on.set()
        assert (await asking)[0] == 201
        assert (await told)[0]["object"]["metadata"]["name"] == "a"
        assert (await reading)[0] in (200, 404)


async def is_stored(wire: Wire) -> bool:
    return wire.server.handle(Request("GET", f"{MAPS}/a"), 0.0).code == 200


async def test_what_cannot_be_saved_is_not_acknowledged(tmp_path, monkeypatch):
    def full(self, *rows):
        raise sqlite3.OperationalError("database or disk is full")

    with opened(tmp_path / "data") as data, pytest.raises(CannotSave, match="disk is full"):
        server = ApiServer(saved=data.load())
        async with served(server, Listen("127.0.0.1", 0), data=data) as api:
            monkeypatch.setattr(DataDir, "save", full)
            await api.keep()


def test_a_data_directory_is_used_by_one_process_and_is_its_owners_alone(tmp_path):
    with opened(tmp_path / "data") as data:
        assert data is not None
        with pytest.raises(InvalidDataDir, match="another process uses it"):
            DataDir(tmp_path / "data")
        assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
        assert stat.S_IMODE((tmp_path / "data" / "objects.sqlite").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "make, said",
    [
        pytest.param(lambda folder: folder.write_text("x"), "cannot be used", id="a file"),
        pytest.param(lambda folder: _garbage(folder), "not a database", id="something else's file"),
    ],
)
def test_what_is_no_data_directory_is_refused(tmp_path, make, said):
    make(tmp_path / "data")
    with pytest.raises(InvalidDataDir, match=said):
        DataDir(tmp_path / "data")


def _garbage(folder: Path) -> None:
    folder.mkdir()
    (folder / "objects.sqlite").write_bytes(b"no database at all, but long enough to be looked at" * 20)
