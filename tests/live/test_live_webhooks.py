"""Webhooks on a live process: certificates that are shared and trusted, questions over TLS, and their installation."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from tiny_cluster import tiny_cluster
from virtual_clock import VirtualClock

from headgate.api.install_manifests import (
    AtService,
    AtUrl,
    queue_definitions,
    volcano_definitions,
)
from headgate.api.requests import Call
from headgate.live.certificates import InvalidCertificate, ServerTls, ServingCertificate, made_for, serves
from headgate.live.client import Client
from headgate.live.connection import HttpResponse, NeverSent
from headgate.live.http_server import HttpRequest, Listen, http_server
from headgate.live.install import NotInstalled, install, manifests
from headgate.live.logs import Outages
from headgate.live.service import UNENFORCED, RunPlan, serve
from headgate.live.start import Flags, start
from headgate.live.webhooks import (
    CHECK_SECONDS,
    LIMITS,
    NOT_ASKED,
    RETRY_SECONDS,
    CertificateDependencies,
    ReviewResponder,
    Trust,
    WebhookPlan,
    webhooks_served,
)
from headgate.model.admission import WebhookSettings
from headgate.model.settings import QuotaSettings, Settings
from headgate.ui.cli import main
from headgate.ui.output import ClusterReading

DAY = 24 * 3600.0
NOW = 1_800_000_000.0
RULES = WebhookSettings(QuotaSettings(), lambda _shape, _priority: "")
OF_KUEUE = [f"CustomResourceDefinition {one['metadata']['name']}" for one in queue_definitions()]
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations/headgate"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SECRET = "/api/v1/namespaces/ns/secrets/headgate-webhook"


class Store:
    """An API server of objects by path; what is applied is merged, lists of named things by name."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.asked: list[str] = []
        self.counted: list[tuple[str, int]] = []
        self.down = False
        self._version = 0

    def count(self, path: str, code: int) -> None:
        self.counted.append((path, code))

    async def perform(self, call: Call) -> HttpResponse:
        if self.down:
            raise NeverSent("127.0.0.1:1: Connection refused")
        self.asked.append(f"{call.method} {call.path}")
        if call.method == "GET":
            return self._shown(call.path)
        body = json.loads(call.body)
        path = f"{call.path}/{body['metadata']['name']}" if call.method == "POST" else call.path
        before = self.objects.get(path)
        wanted = body["metadata"].get("resourceVersion") if "metadata" in body else None
        if before is not None and (
            call.method == "POST" or wanted not in (None, before["metadata"]["resourceVersion"])
        ):
            return HttpResponse(409, b"", b'{"message": "it has been modified"}')
        self._put(path, _merged(before or {}, body) if call.method == "PATCH" else body)
        return self._shown(path)

    def _put(self, path: str, value: dict[str, Any]) -> None:
        if value.get("kind") == "CustomResourceDefinition":
            value["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
        if value != self.objects.get(path):
            self._version += 1
            value["metadata"] = {**value["metadata"], "resourceVersion": str(self._version)}
        self.objects[path] = value

    def _shown(self, path: str) -> HttpResponse:
        found = self.objects.get(path)
        return HttpResponse(404, b"", b"{}") if found is None else HttpResponse(200, b"", json.dumps(found).encode())

    def bundle(self, kind: str) -> bytes:
        """What every webhook of that kind is trusted by."""
        hooks = self.objects[CONFIGURATION.format(kind)]["webhooks"]
        [bundle] = {hook["clientConfig"].get("caBundle", "") for hook in hooks}
        return base64.b64decode(bundle)


def _merged(old: Any, new: Any) -> Any:
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **{name: _merged(old.get(name), part) for name, part in new.items()}}
    if isinstance(old, list) and isinstance(new, list) and all("name" in one for one in new if isinstance(one, dict)):
        known = {one["name"]: one for one in old if isinstance(one, dict)}
        return [_merged(known.get(one["name"]), one) if isinstance(one, dict) else one for one in new]
    return new


async def installed(store: Store, place: AtUrl | AtService | None) -> list[str]:
    steps = install(manifests(place), store.perform, asyncio.sleep)
    return [f"{step.manifest}: {step.outcome}" async for step in steps]


# certificates


@pytest.mark.parametrize(
    "hosts, later, good",
    [
        pytest.param(["10.0.0.5"], 0.0, True, id="an address it was made for"),
        pytest.param(["headgate.ns.svc"], 0.0, True, id="a name it was made for"),
        pytest.param(["10.0.0.6"], 0.0, False, id="an address it was not made for"),
        pytest.param(["headgate.ns.svc", "other"], 0.0, False, id="one name too many"),
        pytest.param(["10.0.0.5"], 330 * DAY, True, id="while it lasts"),
        pytest.param(["10.0.0.5"], 340 * DAY, False, id="no more when it ends soon"),
    ],
)
def test_a_certificate_serves(hosts: list[str], later: float, good: bool) -> None:
    certificate = made_for(["10.0.0.5", "headgate.ns.svc"], NOW)
    assert serves(certificate, hosts, NOW + later) is good


def test_what_is_no_certificate_serves_nothing() -> None:
    assert not serves(ServingCertificate(b"", b"", b""), ["a"], NOW)
    with pytest.raises(InvalidCertificate, match="expected a certificate and its unencrypted key in PEM"):
        ServerTls().show(ServingCertificate(b"nonsense", b"nonsense"))


# trust


class Keeper:
    """One of our processes."""

    def __init__(self, store: Store, log: Any) -> None:
        self.clock, self.tls = VirtualClock(), ServerTls()
        self.clock.now = NOW
        around = CertificateDependencies(log, Outages(log), self.clock.sleep, self.clock)
        self.trust = Trust(store.perform, "ns", self.tls, around)


async def test_the_api_server_is_told_to_trust_the_certificate_all_our_processes_show(log):
    store = Store()
    await installed(store, AtUrl("https://10.0.0.5:10271"))
    one, other = Keeper(store, log), Keeper(store, log)
    assert await one.trust.establish()
    secret = dict(store.objects[SECRET])
    assert await other.trust.establish()
    assert store.objects[SECRET] == secret
    authority = base64.b64decode(secret["data"]["ca.crt"])
    assert store.bundle("mutating") == store.bundle("validating") == authority
    assert "INFO    webhooks serve a certificate of their own CA hosts=10.0.0.5" in log.lines


async def test_an_old_certificate_is_renewed_and_its_authority_stays_trusted_for_those_who_still_show_it(log):
    store = Store()
    await installed(store, AtService("ns", "headgate"))
    keeper = Keeper(store, log)
    await keeper.trust.establish()
    before = store.bundle("mutating")
    keeper.clock.now += 340 * DAY
    await keeper.trust.establish()
    after = store.bundle("mutating")
    assert after != before
    assert after.endswith(before)


async def test_installing_again_keeps_the_trust(log):
    store = Store()
    await installed(store, AtService("ns", "headgate"))
    await Keeper(store, log).trust.establish()
    before = store.bundle("validating")
    assert before
    assert {line.rpartition(": ")[2] for line in await installed(store, AtService("ns", "headgate"))} == {"unchanged"}
    assert store.bundle("validating") == before


async def test_without_configurations_it_says_once_what_to_do_and_looks_again(log):
    store, place = Store(), AtUrl("https://10.0.0.5:10271")
    keeper = Keeper(store, log)
    keeping = asyncio.create_task(keeper.trust.keep())
    await keeper.clock.advance(CHECK_SECONDS)
    await keeper.clock.until_sleeping()
    assert [line for line in log.lines if NOT_ASKED in line] == [f"WARNING {NOT_ASKED}"]
    await installed(store, place)
    await keeper.clock.advance(CHECK_SECONDS)
    await keeper.clock.until_sleeping()
    assert store.bundle("mutating")
    keeping.cancel()


async def test_trouble_is_told_once_and_tried_again(log):
    store = Store()
    await installed(store, AtUrl("https://10.0.0.5:10271"))
    keeper = Keeper(store, log)
    store.down = True
    keeping = asyncio.create_task(keeper.trust.keep())
    await keeper.clock.advance(RETRY_SECONDS)
    await keeper.clock.until_sleeping()
    store.down = False
    await keeper.clock.advance(RETRY_SECONDS)
    await keeper.clock.until_sleeping()
    assert store.bundle("mutating")
    assert [line for line in log.lines if "webhook certificates" in line] == [
        "WARNING webhook certificates: 127.0.0.1:1: Connection refused; retrying",
        "INFO    webhook certificates: recovered",
    ]
    keeping.cancel()


# questions over TLS


@asynccontextmanager
async def asking(store: Store) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection as an API server makes it: it trusts the authority and knows us as 127.0.0.1."""
    certificate, tls = made_for(["127.0.0.1"], time.time()), ServerTls()
    tls.show(certificate)
    trusting = ssl.create_default_context(cadata=certificate.authority.decode())
    responder, here = ReviewResponder(store.perform, RULES, store.count), Listen("127.0.0.1", 0)
    async with http_server(here, responder, LIMITS, "--webhook-listen", tls.context) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
        try:
            yield reader, writer
        finally:
            writer.close()


async def ask(connection: tuple[asyncio.StreamReader, asyncio.StreamWriter], path: str, body: bytes, method="POST"):
    reader, writer = connection
    head = f"{method} {path}?timeout=5s HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    said = await reader.readuntil(b"\r\n\r\n")
    length = int(next(line.split(b":")[1] for line in said.split(b"\r\n") if line.startswith(b"Content-Length")))
    return int(said.split(b" ")[1]), await reader.readexactly(length)


def review(**spec: str) -> bytes:
    groups = [{"name": "workers", "policy": {"gang": {"minCount": 4}}}]
    decoded = {"metadata": {"name": "train"}, "spec": {"podGroups": groups, **spec}}
    resource = {"group": "scheduling.headgate.dev", "version": "v1alpha1", "resource": "workloads"}
    return json.dumps({"request": {"uid": "u1", "resource": resource, "object": decoded}}).encode()


def with_classes(**values: int) -> Store:
    store = Store()
    items = [{"metadata": {"name": name}, "value": value, "globalDefault": value < 5} for name, value in values.items()]
    store.objects[CLASSES] = {"metadata": {}, "items": items}
    return store


async def test_questions_are_answered_by_the_classes_of_that_moment_on_one_connection():
    store = with_classes(low=1)
    async with asking(store) as connection:
        code, body = await ask(connection, "/validate-workload", review(priorityClassName="high"))
        assert (code, json.loads(body)["response"]["status"]["message"]) == (
            200,
            "no PriorityClass with name high was found",
        )
        store.objects |= with_classes(low=1, high=9).objects
        code, body = await ask(connection, "/validate-workload", review(priorityClassName="high"))
        assert (code, json.loads(body)["response"]) == (200, {"uid": "u1", "allowed": True})
        code, body = await ask(connection, "/default-workload", review())
        patch = json.loads(base64.b64decode(json.loads(body)["response"]["patch"]))
        assert patch == [{"op": "add", "path": "/spec/priorityClassName", "value": "low"}]


@pytest.mark.parametrize(
    "path, body, code, said",
    [
        pytest.param("/nowhere", review(), 404, b"try /default-workload, /validate-workload", id="another path"),
        pytest.param("/validate-workload", b"{}", 400, b"expected an AdmissionReview", id="no review"),
        pytest.param(
            "/validate-workload",
            b'{"request":{"x":' + b"[" * 600_000 + b"]" * 600_000 + b"}}",
            400,
            b"expected an AdmissionReview that is not nested so deep",
            id="large and nested very deep",
        ),
        pytest.param(
            "/validate-workload",
            b'{"request":{"x":' + b"[" * 3000 + b'"' + b'\\"' * 200_000,
            400,
            b"expected an AdmissionReview",
            id="nested deep, with a text that never ends",
        ),
    ],
)
async def test_a_bad_question_is_told_what_was_expected(path: str, body: bytes, code: int, said: bytes):
    async with asking(with_classes()) as connection:
        answered, text = await ask(connection, path, body)
    assert answered == code
    assert text.startswith(said)


async def test_without_queues_only_workloads_are_asked_about():
    store = with_classes(low=1)
    responder = ReviewResponder(store.perform, RULES, store.count, queues=False)

    async def asked(path: str) -> int:
        return (await responder(HttpRequest("POST", path, {}, review(), "10.0.0.1", True, {}))).status

    assert [await asked("/validate-workload"), await asked("/default-job"), await asked("/validate-pod")] == [
        200,
        404,
        404,
    ]


async def test_while_the_classes_cannot_be_read_there_is_no_verdict():
    store = with_classes()
    store.down = True
    async with asking(store) as connection:
        code, text = await ask(connection, "/validate-workload", review())
    assert (code, text) == (503, b"the cluster cannot be read: 127.0.0.1:1: Connection refused\n")


async def test_what_webhooks_answer_is_counted_and_no_path_that_a_client_makes_up():
    store = with_classes(low=1)
    responder = ReviewResponder(store.perform, RULES, store.count)
    asked = [("/default-workload", review()), ("/made-up", review()), ("/validate-workload", b"{}")]
    for path, body in asked:
        await responder(HttpRequest("POST", path, {}, body, "10.0.0.1", True, {}))
    assert store.counted == [("/default-workload", 200), ("/validate-workload", 400)]


async def test_only_posts_are_questions():
    async with asking(with_classes()) as connection:
        code, text = await ask(connection, "/validate-workload", b"", method="GET")
        assert (code, text) == (400, b"expected a POST with a Content-Length\n")
        assert await connection[0].read() == b""


# the whole process


@pytest.mark.parametrize(
    "webhooks, said",
    [
        pytest.param(None, UNENFORCED, id="without webhooks it says what nobody checks"),
        pytest.param(
            WebhookPlan(Listen("127.0.0.1", 0), "ns"), "webhooks are served host=127.0.0.1", id="with them, where"
        ),
    ],
)
async def test_the_process_says_once_whether_workloads_are_checked(webhooks: WebhookPlan | None, said: str, log):
    async with tiny_cluster() as cluster:
        stop = asyncio.Event()
        plan = RunPlan(cluster.server.access(), Settings(), webhooks=webhooks)
        running = asyncio.create_task(serve(plan, log, stop))
        cluster.add_node("n-1")
        cluster.add_pod("a")
        await cluster.until(lambda: cluster.bindings)
        stop.set()
        await running
    assert len([line for line in log.lines if said in line]) == 1


async def test_a_certificate_from_files_is_shown(log, ca, tmp_path):
    chain, key = ca.issue("webhook")
    around = CertificateDependencies(log, Outages(log), asyncio.sleep, time.time)
    plan = WebhookPlan(Listen("127.0.0.1", 0), "ns", chain, key)
    async with tiny_cluster() as cluster:
        client = Client(cluster.server.access(), time.monotonic, time.time, asyncio.sleep)
        responder = ReviewResponder(client.perform, RULES, Store().count)
        async with webhooks_served(plan, client, ServerTls(), around, responder) as port:
            trusting = ssl.create_default_context(cafile=str(ca.certificate))
            connection = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
            code, _ = await ask(connection, "/nowhere", b"")
            connection[1].close()
        client.close()
    assert code == 404


# installation


async def test_installing_tells_what_became_of_each_manifest():
    store = Store()
    told = await installed(store, AtUrl("https://10.0.0.5:10271"))
    assert told == [
        "CustomResourceDefinition workloads.scheduling.headgate.dev: created",
        *(f"{one}: created" for one in OF_KUEUE),
        "Namespace headgate-system: created",
        "ServiceAccount headgate-system/headgate: created",
        "ClusterRole headgate-scheduler: created",
        "ClusterRoleBinding headgate-scheduler: created",
        "ClusterRole headgate-quota: created",
        "ClusterRoleBinding headgate-quota: created",
        "ClusterRole headgate-access-reviews: created",
        "ClusterRoleBinding headgate-access-reviews: created",
        "ClusterRole headgate-metrics-reader: created",
        "ClusterRole headgate-manager: created",
        "Role headgate-system/headgate-election: created",
        "RoleBinding headgate-system/headgate-election: created",
        *(f"ClusterRole headgate-{name}: created" for name in ("view", "edit", "admin", "explain")),
        "ValidatingAdmissionPolicy headgate-priorities: created",
        "ValidatingAdmissionPolicyBinding headgate-priorities: created",
        "MutatingWebhookConfiguration headgate: created",
        "ValidatingWebhookConfiguration headgate: created",
    ]
    again = await installed(store, AtUrl("https://10.0.0.6:10271"))
    assert [line for line in again if not line.endswith("unchanged")] == [
        "MutatingWebhookConfiguration headgate: changed",
        "ValidatingWebhookConfiguration headgate: changed",
    ]


async def test_kinds_that_kueue_has_installed_are_left_as_they_are():
    store = Store()
    for definition in queue_definitions():
        versions = [{"name": "v1beta1", "served": True}, {"name": "v1beta2", "served": True}]
        theirs = {**definition, "metadata": {"name": definition["metadata"]["name"]}, "spec": {"versions": versions}}
        store._put(f"{DEFINITIONS}/{definition['metadata']['name']}", theirs)
    before = {path: found for path, found in store.objects.items() if path.endswith("kueue.x-k8s.io")}
    told = await installed(store, None)
    assert told[1 : len(OF_KUEUE) + 1] == [
        f"{one}: left as it is, because somebody else installed it" for one in OF_KUEUE
    ]
    assert {path: store.objects[path] for path in before} == before


async def test_kinds_that_volcano_has_installed_are_left_as_they_are():
    store = Store()
    for definition in volcano_definitions():
        name = definition["metadata"]["name"]
        theirs = {"metadata": {"name": name}, "spec": {"versions": [{"name": "v1beta1", "served": True}]}}
        store._put(f"{DEFINITIONS}/{name}", {**definition, **theirs})
    told = [str(step.outcome) async for step in install(volcano_definitions(), store.perform, asyncio.sleep)]
    assert told == ["left as it is, because somebody else installed it"] * 2


def test_volcanos_kinds_and_their_webhooks_come_with_a_flag():
    def names(*flags: str) -> set[str]:
        printed = yaml.safe_load_all(
            CliRunner().invoke(main, ["install", "--dry-run", "--service", "a/b", *flags]).output
        )
        return {
            named
            for one in printed
            for named in (one["metadata"]["name"], *(h["name"] for h in one.get("webhooks", ())))
        }

    more = names("--volcano") - names()
    assert more == {
        "queues.scheduling.volcano.sh",
        "podgroups.scheduling.volcano.sh",
        *(
            f"{verb}.{kind}.volcano.headgate.dev"
            for verb in ("default", "validate")
            for kind in ("queues", "podgroups")
        ),
    }


async def test_a_kueue_too_old_for_us_is_told_before_anything_depends_on_it():
    store, path = Store(), f"{DEFINITIONS}/cohorts.kueue.x-k8s.io"
    old = {"name": "v1beta1", "served": True}
    store.objects[path] = {"metadata": {"name": "cohorts.kueue.x-k8s.io"}, "spec": {"versions": [old]}}
    said = r"cohorts\.kueue.*: somebody else installed it, and it serves v1beta1, not v1beta2"
    with pytest.raises(NotInstalled, match=said):
        await installed(store, None)


async def test_what_the_server_refuses_is_named():
    async def forbid(call: Call) -> HttpResponse:
        return HttpResponse(403, b"", b'{"message": "you may not"}')

    with pytest.raises(NotInstalled, match=r"CustomResourceDefinition workloads.*: you may not"):
        async for _ in install(manifests(None), forbid, asyncio.sleep):
            pass


KUBECONFIG = """
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""


@pytest.mark.parametrize(
    "flags, said",
    [
        pytest.param({"webhook_listen": "nowhere"}, "--webhook-listen: expected HOST:PORT", id="a bad address"),
        pytest.param({"webhook_cert": "cert"}, "expected both of them, and --webhook-listen", id="a lone certificate"),
        pytest.param({"webhook_listen": "127.0.0.1:0"}, "expected --roles quota,integrations", id="nobody who admits"),
        pytest.param(
            {"webhook_listen": "127.0.0.1:0", "roles": ("scheduler", "quota")},
            "--webhook-listen: the webhooks suspend Jobs and gate pods that name a queue",
            id="nobody who starts what is admitted",
        ),
        pytest.param(
            {"webhook_listen": "127.0.0.1:0", "webhook_cert": "cert", "webhook_key": "key", "queues": False},
            "cert: No such file or directory",
            id="no such certificate",
        ),
    ],
)
def test_wrong_webhook_flags_end_the_start(flags: dict[str, str], said: str, tmp_path, capsys) -> None:
    class Nothing:
        names = ()

        def enabled_by(self, settings: object) -> tuple[()]:
            return ()

    config = tmp_path / "config"
    config.write_text(KUBECONFIG)
    files = {
        name: tmp_path / value if name in ("webhook_cert", "webhook_key") else value for name, value in flags.items()
    }
    assert (
        start(Flags(kubeconfig=str(config), listen="", leader_elect=False, **files), Nothing(), ClusterReading()) == 2
    )
    assert said in capsys.readouterr().err
