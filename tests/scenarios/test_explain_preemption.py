"""`headgate explain preemption` as people and scripts meet it."""

from __future__ import annotations

import asyncio
import json
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest
from builders import bound, node, pod
from click.testing import CliRunner
from steps import Steps

from headgate.live.health import LIMITS, Readiness, everybody, page_handler, probes, receipts_json
from headgate.live.http_server import HttpReply, Listen, http_server
from headgate.model.effects import Nomination, PatchStatus
from headgate.model.events import Outcome
from headgate.ui.cli import main
from headgate.ui.plugins import GROUP

ROOT = Path(__file__).parents[2]
WHOLE_GANGS = str(ROOT / "examples" / "08-whole-gangs" / "scenario.yaml")
DOMAIN = str(Path(__file__).parent / "gangs" / "topology-domain.yaml")
FIRST_POD = str(ROOT / "examples" / "01-first-pod" / "scenario.yaml")


def explain(*arguments):
    return CliRunner().invoke(main, ["explain", "preemption", *arguments])


def test_a_receipt_says_who_for_whom_by_which_rule_at_what_cost_and_what_was_rejected():
    lines = explain("--scenario", DOMAIN).stdout.splitlines()
    who = "10s Workload default/urgent preempt: pod group default/urgent/workers, priority 100, preempts pod "
    assert lines[0].startswith(who)
    rule = "policy LeastLoss, domain zone=b, domains 2, candidates 4, victims 2, units 2, work lost 20 node-seconds"
    assert lines[1].strip().startswith(rule)
    assert lines[2].strip() == (
        "compared: budget violations 0, highest priority 10, gangs broken 0, work lost 20 node-seconds, victims 2, "
        "sum of priorities 20, latest start 10s ago"
    )
    assert lines[3].strip() == "rejected: zone=a: highest priority: 50 instead of 10"


@pytest.mark.parametrize(
    "name, objects",
    [
        pytest.param("urgent-0", ["urgent-0", "lone"], id="the preemptor finds its own receipt and its victim's"),
        pytest.param("lone", ["urgent-0", "lone"], id="a victim finds for whom it left"),
        pytest.param("default/lone", ["urgent-0", "lone"], id="by namespace and name"),
        pytest.param("train-0", ["train-0"], id="a pod of a gang finds its own"),
        pytest.param("train", ["urgent-1", "train-0", "train-1"], id="a workload finds for whom its gang left"),
        pytest.param("trai", [], id="a name is a whole name"),
    ],
)
def test_one_object_can_be_asked_about(name, objects):
    result = explain(name, "--scenario", WHOLE_GANGS, "--output", "json")
    told = [entry["object"]["name"] for entry in json.loads(result.stdout)]
    assert sorted(told) == sorted(objects)


def test_json_is_what_the_journal_holds():
    result = explain("--scenario", WHOLE_GANGS, "--output", "json")
    entries = json.loads(result.stdout)
    assert (result.exit_code, result.stderr) == (0, "")
    assert {entry["decision"] for entry in entries} == {"preempt", "evict"}
    whole = [entry for entry in entries if entry["object"]["name"] == "urgent-1"]
    assert [entry["numbers"]["gangs broken"] for entry in whole] == [1]
    assert whole[0]["numbers"]["certificate"] in ("optimal", "not compared")


def test_one_seed_gives_one_answer():
    answers = {explain("--scenario", WHOLE_GANGS, "--seed", "7").stdout for _ in range(2)}
    assert len(answers) == 1


@pytest.mark.parametrize(
    "arguments, status, said",
    [
        pytest.param(["--scenario", WHOLE_GANGS], 0, "", id="there were some"),
        pytest.param(["--scenario", FIRST_POD], 1, "no preemptions\n", id="there were none"),
        pytest.param(
            ["nobody", "--scenario", WHOLE_GANGS], 1, "no preemption concerned nobody\n", id="none that concern it"
        ),
        pytest.param(["nobody", "--scenario", WHOLE_GANGS, "--output", "json"], 1, "[]\n", id="none, in JSON"),
    ],
)
def test_exit_status(arguments, status, said):
    result = explain(*arguments)
    assert result.exit_code == status
    assert result.stdout == said or status == 0


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        pytest.param(["--scenario", "nowhere.yaml"], "nowhere.yaml: cannot be read: No such file", id="no such file"),
        pytest.param(["--server", "http://127.0.0.1:1"], "http://127.0.0.1:1/preemptions could not be read: ",
                     id="nobody there"),
        pytest.param(["--server", "127.0.0.1"], "Is headgate running with --listen?", id="no address"),
        pytest.param(["--output", "xml"], "is not one of 'table', 'json', 'yaml'", id="an unknown output"),
    ],
)  # fmt: skip
def test_wrong_input_exits_with_2(arguments, complaint):
    result = explain(*arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert result.stdout == ""


def test_plugins_that_cannot_be_used_are_wrong_input(monkeypatch):
    """Such as two installed plugins of one name."""
    twice = [EntryPoint("Gate", f"{module}:Gate", GROUP) for module in ("one", "other")]
    monkeypatch.setattr("headgate.ui.plugins.entry_points", lambda group: EntryPoints(twice))
    result = explain("--scenario", WHOLE_GANGS)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "expected a name of its own; both one:Gate and other:Gate have it" in result.stderr


def preempting_engine():
    """An engine that has just asked one pod to leave for another."""
    low = bound(pod("low", priority=1), "n", started=0.0)
    steps = Steps(node("n", cpu=100), low, pod("high", priority=10))
    made = [each for each in steps.effects if isinstance(each, PatchStatus) and isinstance(each.change, Nomination)]
    return steps.later(60, *(Outcome(each) for each in made)).engine


async def asked(page, *arguments):
    """What the command says of a process that shows this page."""
    handler = page_handler(probes(Readiness()), {"/preemptions": lambda: page}, everybody)
    async with http_server(Listen("127.0.0.1", 0), handler, LIMITS, "--listen") as port:
        return await asyncio.to_thread(explain, *arguments, "--server", f"http://127.0.0.1:{port}")


async def test_a_running_process_is_asked_over_http():
    engine = preempting_engine()
    result = await asked(HttpReply(200, receipts_json(engine.journal.receipts())), "high")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "Pod default/high preempt: pod default/high, priority 10, preempts pod default/low" in result.stdout
    assert "Pod default/low evict: preempted on n by pod default/high, priority 10" in result.stdout
    assert "policy Kubernetes" in result.stdout
    assert result.stdout.startswith("1970-01-01T00:"), "times of a cluster are those of its clock"


async def test_a_page_that_is_no_json_is_an_error():
    result = await asked(HttpReply(200, b"hello"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "/preemptions could not be read: " in result.stderr


async def test_a_running_process_that_preempted_nobody_says_so():
    result = await asked(HttpReply(200, Readiness().receipts()))
    assert (result.exit_code, result.stdout) == (1, "no preemptions\n")


async def test_a_token_is_sent_and_never_in_the_clear_to_another_host(tmp_path):
    seen = []

    async def note(request):
        seen.append(request.headers.get("authorization"))
        return HttpReply(200, b"[]")

    file = tmp_path / "token"
    file.write_text("abc\n")
    async with http_server(Listen("127.0.0.1", 0), note, LIMITS, "--listen") as port:
        here = f"http://127.0.0.1:{port}"
        result = await asyncio.to_thread(explain, "--server", here, "--token-file", str(file))
    assert (result.exit_code, seen) == (1, ["Bearer abc"])
    result = explain("--server", "http://192.0.2.1:1", "--token-file", str(file))
    assert result.exit_code == 2
    assert "http://192.0.2.1:1/preemptions: expected https, because a token is sent" in result.stderr


async def test_a_process_without_the_page_is_an_error():
    result = await asked(HttpReply(404, b"try elsewhere"))
    assert result.exit_code == 2
