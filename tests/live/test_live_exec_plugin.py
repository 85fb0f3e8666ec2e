"""Credential plugins: what they are told, what is taken from them, and what is said when they fail."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec
import pytest
from scripted_server import Exchange, scripted
from throwaway_ca import ThrowawayCa
from virtual_clock import ImpatientClock

from headgate.api.requests import Call
from headgate.api.wire import format_time
from headgate.live.access import Access, ExecPlugin
from headgate.live.client import Client
from headgate.live.connection import NeverSent
from headgate.live.credentials import ask_plugin

V1 = "client.authentication.k8s.io/v1"
GET = Call("GET", "/", {}, "", b"")


def plugin(program: str, *arguments: str, **fields: object) -> ExecPlugin:
    return ExecPlugin(V1, sys.executable, ("-c", program, *arguments), **fields)


def printing(status: object, version: str = V1, kind: str = "ExecCredential") -> ExecPlugin:
    answer = json.dumps({"apiVersion": version, "kind": kind, "status": status})
    return plugin("import sys; print(sys.argv[1])", answer)


async def test_the_plugin_is_told_what_the_protocol_promises():
    program = """
import json, os
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
spec = info["spec"]
token = ".".join([info["kind"], spec["cluster"]["server"], str(spec["interactive"]), os.environ["EXTRA"]])
print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": {"token": token}}))
"""
    told = plugin(program, environment=(("EXTRA", "more"),), cluster_info=msgspec.json.encode({"server": "S"}))
    assert (await ask_plugin(told)).token == "ExecCredential.S.False.more"


@pytest.mark.parametrize(
    "asked, why",
    [
        pytest.param(plugin("raise SystemExit('log in first')"), "exit status 1: log in first", id="it fails"),
        pytest.param(plugin("print('hello')"), "expected an ExecCredential in JSON", id="it prints something else"),
        pytest.param(plugin("print('{}')"), "expected an ExecCredential in JSON", id="it prints an empty object"),
        pytest.param(printing({"token": "x"}, "v0"), f"ExecCredential of {V1}, got", id="another version"),
        pytest.param(printing({"token": "x"}, kind="Pod"), "got Pod of", id="another kind"),
        pytest.param(printing(None), "expected status", id="no status"),
        pytest.param(printing({}), "status.token or a client certificate", id="an empty status"),
        pytest.param(
            printing({"clientCertificateData": "x"}), "clientKeyData together", id="a certificate without key"
        ),
        pytest.param(printing({"token": "x\ny"}), "printable ASCII", id="a token that would break a header"),
        pytest.param(printing({"token": "x", "expirationTimestamp": "soon"}), "RFC 3339", id="an unreadable expiry"),
        pytest.param(ExecPlugin(V1, "./nowhere/at/all"), "could not be started: No such file", id="no such program"),
    ],
)
async def test_what_went_wrong_names_the_plugin_and_how_to_get_it(asked: ExecPlugin, why: str):
    hinted = msgspec.structs.replace(asked, install_hint="install it with care")
    with pytest.raises(ValueError, match=r"(?s)^exec plugin .*; install it with care$") as failure:
        await ask_plugin(hinted)
    assert why in str(failure.value)


COUNTING = """
import json, pathlib, sys
file = pathlib.Path(sys.argv[1])
count = int(file.read_text()) + 1 if file.exists() else 1
file.write_text(str(count))
status = {"token": f"t{count}", "expirationTimestamp": sys.argv[2]}
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}))
"""


async def test_a_token_is_kept_until_it_expires_or_is_refused(tmp_path: Path):
    clock = ImpatientClock()
    refused = set()

    async def check(exchange: Exchange) -> None:
        exchange.reply(401 if exchange.headers["authorization"] in refused else 200)

    async with scripted(check) as server:
        counting = plugin(COUNTING, str(tmp_path / "count"), format_time(clock.now + 100))
        client = Client(server.access(counting), clock, clock, clock.sleep)
        await client.perform(GET)
        await client.perform(GET)
        refused.add("Bearer t1")
        await client.perform(GET)
        clock.now += 100
        await client.perform(GET)
    shown = [exchange.headers["authorization"] for exchange in server.seen]
    assert shown == ["Bearer t1", "Bearer t1", "Bearer t1", "Bearer t2", "Bearer t3"]


async def test_a_client_certificate_from_a_plugin_is_shown(ca: ThrowawayCa):
    chain, key = ca.issue("plugged")
    granting = printing({"clientCertificateData": chain.read_text(), "clientKeyData": key.read_text()})
    clock = ImpatientClock()

    async def ok(exchange: Exchange) -> None:
        exchange.reply()

    async with scripted(ok, ca.server(demand_certificate=True)) as server:
        cluster = server.access(authority=ca.certificate.read_bytes()).cluster
        client = Client(Access(cluster, granting), clock, clock, clock.sleep)
        assert (await client.perform(GET)).status == 200


async def test_an_unusable_certificate_from_a_plugin_means_nothing_was_sent(ca: ThrowawayCa):
    granting, clock = printing({"clientCertificateData": "no", "clientKeyData": "no"}), ImpatientClock()

    async def ok(exchange: Exchange) -> None:
        exchange.reply()

    async with scripted(ok, ca.server()) as server:
        client = Client(server.access(granting, verify=False), clock, clock, clock.sleep)
        with pytest.raises(NeverSent, match="expected a certificate"):
            await client.perform(GET)
