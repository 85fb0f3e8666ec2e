"""The small Kubernetes on the wire: TLS, credentials, answers and watches."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import ssl
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from headgate.apiserver.messages import Request
from headgate.apiserver.server import ApiServer
from headgate.live.api_front import COMPRESSED_FROM, LIMITS, served
from headgate.live.certificates import tls_context
from headgate.live.http_server import Listen
from headgate.live.kubeconfig import find_access

MAPS = "/api/v1/namespaces/default/configmaps"
PATIENCE = 10.0  # seconds
ONE_WATCH = replace(LIMITS, streams=1)


def config_map(name: str, size: int = 1) -> bytes:
    value = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "x" * size}}
    return json.dumps(value).encode()


class Wire:
    """One front and how to ask it; every request on a connection of its own."""

    def __init__(self, file: Path, server: ApiServer) -> None:
        self.server, self.file = server, file
        document = yaml.safe_load(file.read_text())
        self.token = document["users"][0]["user"]["token"]
        self.port = int(document["clusters"][0]["cluster"]["server"].rpartition(":")[2])
        access = find_access(str(file), "", {})
        self.with_certificate = tls_context(access.cluster, access.certificate)
        self.without = tls_context(access.cluster, None)

    async def send(
        self, method: str, path: str, body: bytes = b"", tls: ssl.SSLContext | None = None, **headers: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=tls or self.without)
        lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        return reader, writer

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, dict[str, str], bytes]:
        headers = {"Authorization": f"Bearer {self.token}", **headers}
        reader, writer = await self.send(method, path, body, **headers)
        async with asyncio.timeout(PATIENCE):
            head, _, rest = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        first, *lines = head.decode().split("\r\n")
        return int(first.split()[1]), dict(line.split(": ", 1) for line in lines), rest

    @contextlib.asynccontextmanager
    async def watch(self, path: str, **headers: str) -> AsyncIterator[asyncio.StreamReader]:
        reader, writer = await self.send("GET", path, Authorization=f"Bearer {self.token}", **headers)
        async with asyncio.timeout(PATIENCE):
            await reader.readuntil(b"\r\n\r\n")
        yield reader
        writer.transport.abort()


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncIterator[Wire]:
    server, file = ApiServer(), tmp_path / "kubeconfig"
    async with served(server, Listen("127.0.0.1", 0), "test", file):
        yield Wire(file, server)


async def events(reader: asyncio.StreamReader, count: int) -> list[dict]:
    """That many events of a watch, whatever the chunks they come in."""
    found, text = [], b""
    async with asyncio.timeout(PATIENCE):
        while len(found) < count:
            size = int(await reader.readline(), 16)
            assert size, "the watch ended"
            text += (await reader.readexactly(size + 2))[:-2]
            *lines, text = text.split(b"\n")
            found += [json.loads(line) for line in lines]
    return found


async def test_the_kubeconfig_is_for_its_owner_only(wire):
    assert stat.S_IMODE(wire.file.stat().st_mode) == 0o600


async def test_an_object_is_created_and_read_over_tls(wire):
    code, _, _ = await wire.ask("POST", MAPS, config_map("a"))
    assert code == 201
    code, headers, body = await wire.ask("GET", f"{MAPS}/a")
    assert (code, json.loads(body)["metadata"]["name"]) == (200, "a")
    assert headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("given", ["", "Bearer nonsense", "Basic eDp5"])
async def test_whoever_is_not_known_is_refused_and_learns_nothing(wire, given):
    code, _, body = await wire.ask("GET", f"{MAPS}/a", Authorization=given)
    assert (code, json.loads(body)["reason"]) == (401, "Unauthorized")


async def test_a_client_certificate_is_as_good_as_the_token(wire):
    reader, writer = await wire.send("GET", MAPS, tls=wire.with_certificate)
    async with asyncio.timeout(PATIENCE):
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    writer.close()


async def test_probes_ask_for_no_credentials(wire):
    assert (await wire.ask("GET", "/readyz", Authorization=""))[2] == b"ok"


async def test_a_watch_tells_what_is_and_then_what_comes(wire):
    await wire.ask("POST", MAPS, config_map("a"))
    async with wire.watch(f"{MAPS}?watch=true") as reader:
        (first,) = await events(reader, 1)
        await wire.ask("POST", MAPS, config_map("b"))
        await wire.ask("DELETE", f"{MAPS}/a")
        later = await events(reader, 2)
    told = [(event["type"], event["object"]["metadata"]["name"]) for event in (first, *later)]
    assert told == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]


async def test_a_watch_learns_of_what_others_write_in_process(tmp_path):
    server = ApiServer()
    async with (
        served(server, Listen("127.0.0.1", 0), "test", tmp_path / "kubeconfig") as front,
        Wire(tmp_path / "kubeconfig", server).watch(f"{MAPS}?watch=1") as reader,
    ):
        server.handle(Request("POST", MAPS, body=config_map("a")), 0.0)
        front.inform()
        assert (await events(reader, 1))[0]["object"]["metadata"]["name"] == "a"


async def test_a_watch_ends_when_its_time_is_over(wire):
    _, _, body = await wire.ask("GET", f"{MAPS}?watch=true&timeoutSeconds=1")
    assert body == b"0\r\n\r\n"


async def test_a_watch_of_tables_names_the_columns_once(wire):
    for name in ("a", "b"):
        await wire.ask("POST", MAPS, config_map(name))
    form = "application/json;as=Table;v=v1;g=meta.k8s.io"
    async with wire.watch(f"{MAPS}?watch=true", Accept=form) as reader:
        first, second = await events(reader, 2)
    assert first["object"]["columnDefinitions"][0]["name"] == "Name"
    assert second["object"]["columnDefinitions"] is None


async def test_a_watch_from_a_forgotten_version_is_told_so(tmp_path):
    server = ApiServer(history=1)
    async with served(server, Listen("127.0.0.1", 0), "test", tmp_path / "kubeconfig"):
        wire = Wire(tmp_path / "kubeconfig", server)
        for name in "abcd":
            await wire.ask("POST", MAPS, config_map(name))
        code, _, body = await wire.ask("GET", f"{MAPS}?watch=true&resourceVersion=1")
    assert (code, json.loads(body)["reason"]) == (410, "Expired")


async def test_a_long_answer_is_compressed_for_whoever_can_read_it(wire):
    await wire.ask("POST", MAPS, config_map("a", COMPRESSED_FROM))
    _, headers, body = await wire.ask("GET", MAPS, Accept_Encoding="gzip")
    assert headers["Content-Encoding"] == "gzip"
    assert json.loads(gzip.decompress(body))["items"][0]["metadata"]["name"] == "a"
    assert "Content-Encoding" not in (await wire.ask("GET", MAPS))[1]


async def test_more_watches_than_allowed_are_refused_and_the_others_go_on(tmp_path):
    server = ApiServer()
    async with served(server, Listen("127.0.0.1", 0), "test", tmp_path / "kubeconfig", ONE_WATCH):
        wire = Wire(tmp_path / "kubeconfig", server)
        async with wire.watch(f"{MAPS}?watch=true") as reader:
            assert (await wire.ask("GET", f"{MAPS}?watch=true"))[0] == 429
            await wire.ask("POST", MAPS, config_map("a"))
            assert len(await events(reader, 1)) == 1


async def test_a_client_that_goes_makes_place_for_another_watch(tmp_path):
    server = ApiServer()
    async with served(server, Listen("127.0.0.1", 0), "test", tmp_path / "kubeconfig", ONE_WATCH):
        wire = Wire(tmp_path / "kubeconfig", server)
        async with wire.watch(f"{MAPS}?watch=true"):
            pass
        async with asyncio.timeout(PATIENCE):
            while (await wire.ask("GET", f"{MAPS}?watch=true&timeoutSeconds=1"))[0] == 429:
                await asyncio.sleep(0)


async def test_a_warning_comes_in_a_header(wire):
    body = json.loads(config_map("a")) | {"nonsense": 1}
    _, headers, _ = await wire.ask("POST", f"{MAPS}?fieldValidation=Warn", json.dumps(body).encode())
    assert headers["Warning"] == '299 - "unknown field \\"nonsense\\""'


@pytest.fixture
async def tracking(tmp_path: Path) -> AsyncIterator[Wire]:
    """A front whose server keeps managers of fields."""
    server, file = ApiServer(tracks_fields=True), tmp_path / "tracking"
    async with served(server, Listen("127.0.0.1", 0), "test", file):
        yield Wire(file, server)


async def test_a_client_manages_what_it_writes_under_its_name(tracking):
    headers = {"User_Agent": "kubectl/v1.36 (linux)", "Content_Type": "application/json"}
    code, _, body = await tracking.ask("POST", MAPS, config_map("a"), **headers)
    assert (code, json.loads(body)["metadata"]["managedFields"][0]["manager"]) == (201, "kubectl")


APPLIED = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: 'no', t: '2026-01-01'}\n"


async def test_yaml_is_applied_and_created(tracking):
    path, kind = f"{MAPS}/a?fieldManager=me", "application/apply-patch+yaml"
    code, _, body = await tracking.ask("PATCH", path, APPLIED, Content_Type=kind)
    assert (code, json.loads(body)["data"]) == (201, {"k": "no", "t": "2026-01-01"})
    made = APPLIED.replace(b"name: a", b"name: b")
    assert (await tracking.ask("POST", MAPS, made, Content_Type="application/yaml"))[0] == 201


@pytest.mark.parametrize("body", [b"a: [", b"- 1", b"text", b"", b"a: &x [*x]", b"\xff\xfe\x00"])
async def test_yaml_that_is_none_is_refused(tracking, body):
    kind = "application/apply-patch+yaml"
    code, _, told = await tracking.ask("PATCH", f"{MAPS}/a?fieldManager=me", body, Content_Type=kind)
    assert (code, json.loads(told)["reason"]) == (400, "BadRequest")


async def test_the_token_of_a_service_account_is_its_name(tracking):
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    account = b'{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"robot"}}'
    await tracking.ask("POST", accounts, account)
    token = json.loads((await tracking.ask("POST", f"{accounts}/robot/token", b"{}"))[2])["status"]["token"]
    assert (await tracking.ask("GET", MAPS, Authorization=f"Bearer {token}"))[0] == 200
    await tracking.ask("DELETE", f"{accounts}/robot")
    assert (await tracking.ask("GET", MAPS, Authorization=f"Bearer {token}"))[0] == 401
