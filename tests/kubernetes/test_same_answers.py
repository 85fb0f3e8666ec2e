"""The small Kubernetes answers as a real one does: same code, reason and message, same object."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import parse_qsl

import exchanges_apply
import exchanges_changes
import exchanges_custom
import exchanges_limits
import exchanges_others
import exchanges_pods
import exchanges_reads
import exchanges_scale
import exchanges_webhooks
import pytest
from children import settled
from cluster import Cluster
from exchanges import CLASSES, PODS, Step, get, merge
from objects import forget_classes
from wire import Answer, Client

from headgate.apiserver import ApiServer, Request

EXCHANGES = {
    **exchanges_pods.EXCHANGES,
    **exchanges_changes.EXCHANGES,
    **exchanges_limits.EXCHANGES,
    **exchanges_others.EXCHANGES,
    **exchanges_apply.EXCHANGES,
    **exchanges_scale.EXCHANGES,
    **exchanges_reads.EXCHANGES,
    **exchanges_custom.EXCHANGES,
    **exchanges_webhooks.CONFIGURATIONS,
}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NOW = 1_800_000_000.0

WORDED_BY_GO = {
    "a manifest of another kind",
    "a body that is no JSON",
    "a body that is a list",
    "an empty body",
    "a word where a number belongs",
    "a word where a list belongs",
    "a word where a yes or no belongs",
    "a limit that is bad",
    "a continuation that is bad",
    "a version that is bad",
    "a patch that is no JSON",
    "a JSON patch that is no list",
    "a merge patch of a list",
    "a priority class beyond all numbers",
}
"""Exchanges whose message is that of a parser in Go's libraries; only code and reason are compared."""


@pytest.mark.parametrize("name", EXCHANGES)
async def test_both_servers_answer_alike(client: Client, namespace: str, name: str) -> None:
    small = ApiServer(tracks_fields=True)
    ask_small(small, Step("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}))
    ask_small(small, Step("POST", DEFINITIONS, exchanges_custom.DEFINITION))
    first_real = first_small = None
    told = code_and_reason if name in WORDED_BY_GO else essence
    has_classes = any(step.path.startswith(CLASSES) for step in EXCHANGES[name])
    for number, step in enumerate(EXCHANGES[name]):
        ours = ask_small(small, filled_in(step, namespace, first_small))
        asked = filled_in(step, namespace, first_real)
        if has_classes and step.method == "POST" and step.path in (PODS, CLASSES):
            await rehearsed(client, asked, told, told(ours))
        real = await ask_real(client, asked)
        first_real, first_small = first_real or real, first_small or ours
        assert told(ours) == told(real), f"step {number}: {step.method} {step.path}"


async def rehearsed(client: Client, step: Step, told: Callable[[Answer], Any], wanted: Any) -> None:
    """Asks for a dry run of what depends on priority classes, which a real server's admission hears of in a moment."""
    dry = step._replace(path=f"{step.path}?dryRun=All")

    async def ask() -> Any:
        return told(await ask_real(client, dry))

    await settled(ask, wanted)


CHANGES = [
    Step("POST", exchanges_reads.MAPS, exchanges_reads.config_map("a", {"k": "1"}, labels={"x": "1"})),
    Step("POST", exchanges_reads.MAPS, exchanges_reads.config_map("b", {"k": "1"})),
    merge({"metadata": {"labels": {"x": None}}}, f"{exchanges_reads.MAPS}/a"),
    merge({"metadata": {"labels": {"x": "1"}}}, f"{exchanges_reads.MAPS}/b"),
    merge({"data": {"k": "2"}}, f"{exchanges_reads.MAPS}/b"),
    merge({"metadata": {"finalizers": ["example.com/stay"]}}, f"{exchanges_reads.MAPS}/b"),
    Step("DELETE", f"{exchanges_reads.MAPS}/b"),
    merge({"metadata": {"finalizers": None}}, f"{exchanges_reads.MAPS}/b"),
    Step("DELETE", f"{exchanges_reads.MAPS}/a"),
]


@pytest.mark.parametrize("query", ["", "&labelSelector=x", "&labelSelector=%21x", "&fieldSelector=metadata.name%3Db"])
@pytest.mark.parametrize("since", range(-1, len(CHANGES), 2))
async def test_both_servers_tell_the_same_of_what_came_after_a_version(
    client: Client, namespace: str, since: int, query: str
) -> None:
    small = ApiServer(tracks_fields=True)
    ask_small(small, Step("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}))
    path = exchanges_reads.MAPS.replace("NS", namespace)
    versions = []
    for ask in (lambda step: ask_real(client, step), lambda step: _answered(ask_small(small, step))):
        seen = [(await ask(get(path))).value["metadata"]["resourceVersion"]]
        for step in CHANGES:
            await ask(filled_in(step, namespace, None))
            seen.append((await ask(get(path))).value["metadata"]["resourceVersion"])
        versions.append(seen[since + 1])
    asked = f"watch=true&timeoutSeconds=1{query}&resourceVersion="
    watch = small.watch(path, dict(parse_qsl(asked + versions[1])))
    ours = _essence("", [{"type": event.type, "object": event.value} for event in watch.drain()])

    async def heard() -> Any:
        """A second may be too short for a busy server to tell all."""
        return _essence("", [json.loads(line) async for line in client.lines(f"{path}?{asked}{versions[0]}")])

    assert ours == await settled(heard, ours)


async def _answered(answer: Answer) -> Answer:
    return answer


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
async def test_both_servers_turn_the_same_pages(client: Client, namespace: str, limit: int) -> None:
    """Also when the list changes in between: pages are of the moment of the first one."""
    small = ApiServer(tracks_fields=True)
    ask_small(small, Step("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}))
    path, pages = exchanges_reads.MAPS.replace("NS", namespace), []
    for ask in (lambda step: ask_real(client, step), lambda step: _answered(ask_small(small, step))):
        for name in "abcd":
            await ask(Step("POST", path, json.dumps(exchanges_reads.config_map(name)).encode()))
        found, token = [], ""
        while True:
            listed = (await ask(get(f"{path}?limit={limit}&continue={token}"))).value
            token = listed["metadata"].pop("continue", "")
            found.append(_essence("", listed))
            await ask(Step("DELETE", f"{path}/c"))
            if not token:
                break
        pages.append(found)
    assert pages[1] == pages[0]


@pytest.fixture(scope="module", autouse=True)
def things(cluster: Cluster) -> None:
    """The custom resource of some exchanges is served."""
    cluster.define(exchanges_custom.DEFINITION)


@pytest.fixture
async def client(client: Client) -> AsyncIterator[Client]:
    """Takes away the priority classes that an exchange left behind: a default one would change all that follow."""
    yield client
    names = [found["metadata"]["name"] for found in (await client.get(CLASSES))["items"]]
    await forget_classes(client, [name for name in names if not name.startswith("system-")])


def filled_in(step: Step, namespace: str, first: Answer | None) -> Step:
    """The step with its placeholders replaced."""
    known = first.value["metadata"] if first and first.body.startswith(b"{") else {}
    names = {"NS": namespace, "UID": known.get("uid", ""), "VERSION": known.get("resourceVersion", "")}
    fill = replacing({rf"\b{name}\b": value for name, value in names.items()})
    body = (
        step.body
        if isinstance(step.body, bytes)
        else b""
        if step.body is None
        else fill(json.dumps(step.body)).encode()
    )
    return Step(step.method, fill(step.path), body, step.content_type)


async def ask_real(client: Client, step: Step) -> Answer:
    return await client.request(step.method, step.path, step.body, step.content_type)


def ask_small(server: ApiServer, step: Step) -> Answer:
    path, _, query = step.path.partition("?")
    body = step.body if isinstance(step.body, bytes) else json.dumps(step.body).encode()
    request = Request(step.method, path, dict(parse_qsl(query)), body, step.content_type)
    response = server.handle(request, NOW)
    return Answer(response.code, response.body)


def code_and_reason(answer: Answer) -> Any:
    return answer.code, answer.value.get("reason")


def essence(answer: Answer) -> Any:
    """The answer without what differs between any two servers: identities, versions and times."""
    if not answer.body.startswith(b"{"):
        return answer.code, answer.body.decode().strip()
    return answer.code, _essence("", answer.value)


_INCIDENTAL = {"uid", "resourceVersion"}


def replacing(patterns: dict[str, str]) -> Callable[[str], str]:
    def replace(text: str) -> str:
        for pattern, value in patterns.items():
            text = re.sub(pattern, value, text, flags=re.DOTALL)
        return text

    return replace


_without_incidents = replacing(
    {
        r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}": "(uid)",
        r"\b(ResourceVersion in [a-z ]+): \d+": r"\1: (version)",
        r"\b(ResourceVersion in record) \(\d+\)": r"\1 (version)",
        r"\bBad_[a-z0-9]{5}\b": "(generated)",
        r"\beyJ[\w-]+\.[\w-]+\.[\w-]+": "(token)",
        # Go values in full, or comparisons of two of them.
        r"Invalid value: \{.*\}: ": "Invalid value: (value): ",
        r'Invalid value: "\{.*\}": ': "Invalid value: (value): ",
        r'Invalid value: "map\[.*\]": ': "Invalid value: (value): ",
        r"(pod updates may not change fields other than[^\n]*)\n.*": r"\1",
        r"(field is immutable).*": r"\1",
    }
)


def _keys(value: Any) -> set[str]:
    return set(value) if isinstance(value, dict) else set()


def _manager(entry: Any) -> tuple[str, ...]:
    return entry["operation"], entry["manager"], entry.get("subresource", "")


def _essence(name: str, value: Any) -> Any:
    match value:
        case dict():
            if {"token", "allowed"} & _keys(value.get("status")):  # what is not stored says nothing of managers on ours
                value = {
                    **value,
                    "metadata": {key: part for key, part in value["metadata"].items() if key != "managedFields"},
                }
            kept = {key: _essence(key, part) for key, part in value.items() if key not in _INCIDENTAL}
            return {key: part for key, part in kept.items() if (key, part) != ("details", {})}
        case list() if name == "managedFields":
            order = sorted(
                value, key=lambda entry: (entry["operation"], entry["manager"], entry.get("subresource", ""))
            )
            return [_essence("", part) for part in order]
        case list():
            return [_essence("", part) for part in value]
        case str() if name.endswith(("Timestamp", "Time")) or name == "time":
            return "(time)"
        case str():
            return _without_incidents(value)
    return value
