"""The small Kubernetes on the wire: TLS, credentials, answers and watches."""

from __future__ import annotations

import asyncio
import gzip
import json
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from wire_client import MAPS, PATIENCE, Wire, config_map, events, wired

from headgate.apiserver.authorization import AuthorizationMode
from headgate.apiserver.messages import Request
from headgate.apiserver.server import ApiServer
from headgate.live.api_front import COMPRESSED_FROM, LIMITS

ONE_WATCH = replace(LIMITS, streams=1)


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncIterator[Wire]:
    async with wired(ApiServer(), tmp_path / "kubeconfig") as wire:
        yield wire


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


@pytest.fixture
async def ruled(tmp_path: Path) -> AsyncIterator[Wire]:
    """A server whose roles decide: jane, and the group readers, may list config maps."""
    server, group = ApiServer(authorization=AuthorizationMode.RBAC), "rbac.authorization.k8s.io"
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]
    subjects = [
        {"kind": "Group", "name": "readers"},
        {"kind": "ServiceAccount", "name": "jane", "namespace": "default"},
    ]
    for plural, value in (
        ("roles", {"rules": rules}),
        ("rolebindings", {"roleRef": {"kind": "Role", "name": "a"}, "subjects": subjects}),
    ):
        body = json.dumps({"metadata": {"name": "a"}, **value}).encode()
        made = server.handle(Request("POST", f"/apis/{group}/v1/namespaces/default/{plural}", body=body), 0.0)
        assert made.code == 201
    async with wired(server, tmp_path / "kubeconfig") as wire:
        yield wire


async def test_a_service_account_asks_with_its_token_and_has_its_own_rights(ruled):
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    for name, codes in (("jane", [200, 403]), ("joe", [403, 403])):
        await ruled.ask("POST", accounts, json.dumps({"metadata": {"name": name}}).encode())
        _, _, body = await ruled.ask("POST", f"{accounts}/{name}/token", b"{}")
        given = f"Bearer {json.loads(body)['status']['token']}"
        found = [(await ruled.ask("GET", path, Authorization=given))[0] for path in (MAPS, f"{MAPS}/a")]
        assert found == codes


async def test_whoever_says_nothing_is_anonymous_and_whoever_lies_is_nobody(ruled):
    code, _, body = await ruled.ask("GET", MAPS, Authorization="")
    assert (code, json.loads(body)["message"].split(" cannot ")[0]) == (
        403,
        'configmaps is forbidden: User "system:anonymous"',
    )
    assert (await ruled.ask("GET", "/version", Authorization=""))[0] == 200
    assert (await ruled.ask("GET", "/version", Authorization="Bearer nonsense"))[0] == 401


async def test_the_administrator_of_a_certificate_is_never_refused(ruled):
    reader, writer = await ruled.send("DELETE", MAPS, tls=ruled.with_certificate)
    async with asyncio.timeout(PATIENCE):
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    writer.close()


@pytest.mark.parametrize(
    "headers, code",
    [
        pytest.param({"Impersonate_User": "joe"}, 403, id="a user without rights"),
        pytest.param({"Impersonate_User": "joe", "Impersonate_Group": "readers"}, 200, id="in a group with rights"),
        pytest.param(
            {"Impersonate_User": "joe", "Impersonate_Group": "readers\r\nImpersonate-Group: others"},
            200,
            id="in two groups",
        ),
        pytest.param({"Impersonate_User": "joe", "Impersonate_Group": "readers,x"}, 403, id="in a group with a comma"),
        pytest.param({"Impersonate_Group": "readers"}, 500, id="in a group and nobody"),
        pytest.param({"Impersonate_Uid": "1"}, 500, id="with a uid and nobody"),
        pytest.param({"Impersonate_Extra_X": "1"}, 500, id="with more and nobody"),
    ],
)
async def test_the_administrator_acts_as_others(ruled, headers, code):
    assert (await ruled.ask("GET", MAPS, **headers))[0] == code
    assert (await ruled.ask("GET", f"{MAPS}?watch=true&timeoutSeconds=1", **headers))[0] in (403, code)


ACTING = {
    "Impersonate_User": "joe",
    "Impersonate_Uid": "u-1",
    "Impersonate_Extra_Scopes": "view\r\nImpersonate-Extra-Scopes: edit",
    "Impersonate_Extra_Example.com%2fTeam": "a",
}
REVIEW = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'


async def test_a_uid_and_more_belong_to_whom_one_acts_as(ruled):
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    code, _, body = await ruled.ask("POST", path, REVIEW, **ACTING)
    assert (code, json.loads(body)["status"]["userInfo"]) == (
        201,
        {
            "username": "joe",
            "uid": "u-1",
            "groups": ["system:authenticated"],
            "extra": {"scopes": ["view", "edit"], "example.com/team": ["a"]},
        },
    )


async def test_a_watch_that_no_rule_allows_is_refused(ruled):
    acting = {"Impersonate_User": "joe", "Impersonate_Group": "readers"}
    code, _, body = await ruled.ask("GET", f"{MAPS}?watch=true", **acting)
    assert (code, 'cannot watch resource "configmaps"' in json.loads(body)["message"]) == (403, True)


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
        wired(server, tmp_path / "kubeconfig") as wire,
        wire.watch(f"{MAPS}?watch=1") as reader,
    ):
        server.handle(Request("POST", MAPS, body=config_map("a")), 0.0)
        wire.front.inform()
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
    async with wired(server, tmp_path / "kubeconfig") as wire:
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
    async with (
        wired(ApiServer(), tmp_path / "kubeconfig", ONE_WATCH) as wire,
        wire.watch(f"{MAPS}?watch=true") as reader,
    ):
        assert (await wire.ask("GET", f"{MAPS}?watch=true"))[0] == 429
        await wire.ask("POST", MAPS, config_map("a"))
        assert len(await events(reader, 1)) == 1


async def test_a_client_that_goes_makes_place_for_another_watch(tmp_path):
    async with wired(ApiServer(), tmp_path / "kubeconfig", ONE_WATCH) as wire:
        async with wire.watch(f"{MAPS}?watch=true"):
            pass
        async with asyncio.timeout(PATIENCE):
            while (await wire.ask("GET", f"{MAPS}?watch=true&timeoutSeconds=1"))[0] == 429:
                await asyncio.sleep(0)


async def test_a_watch_whose_client_does_not_read_is_dropped(tmp_path):
    hasty = replace(ONE_WATCH, drain_seconds=1.0)
    async with wired(ApiServer(), tmp_path / "kubeconfig", hasty) as wire, wire.watch(f"{MAPS}?watch=true") as reader:
        reader._transport.pause_reading()
        async with asyncio.timeout(PATIENCE):
            number = 0
            while (await wire.ask("GET", f"{MAPS}?watch=true&timeoutSeconds=1&resourceVersion=1"))[0] == 429:
                number += 1
                await wire.ask("POST", MAPS, config_map(f"m-{number}", 1_000_000))
    assert number, "it had its place until then"


async def test_a_body_that_is_too_long_is_refused(wire):
    assert (await wire.ask("POST", MAPS, config_map("a", LIMITS.body)))[0] == 413


async def test_a_warning_comes_in_a_header(wire):
    body = json.loads(config_map("a")) | {"nonsense": 1}
    _, headers, _ = await wire.ask("POST", f"{MAPS}?fieldValidation=Warn", json.dumps(body).encode())
    assert headers["Warning"] == '299 - "unknown field \\"nonsense\\""'


@pytest.fixture
async def tracking(tmp_path: Path) -> AsyncIterator[Wire]:
    """A front whose server keeps managers of fields."""
    async with wired(ApiServer(tracks_fields=True), tmp_path / "tracking") as wire:
        yield wire


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
