"""`headgate explain workload` in scenarios: what is said at a moment of a run, and that it comes true."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from headgate.ui.cli import main

ROOT = Path(__file__).parents[2]
QUEUES = str(ROOT / "examples" / "11-queues" / "scenario.yaml")


def explain(*arguments):
    return CliRunner().invoke(main, ["explain", "workload", *arguments])


def told(*arguments):
    result = explain(*arguments, "--output", "json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    "job, at, verdict",
    [
        pytest.param("forecast", "20s", "Admitted", id="it runs"),
        pytest.param("newsletter", "20s", "WaitingForQuota", id="it waits"),
        pytest.param("newsletter", "70s", "Admitted", id="it waited, and then it ran"),
        pytest.param("newsletter", "", "Finished", id="at the end it is done"),
    ],
)
def test_a_moment_of_a_scenario(job, at, verdict):
    moment = ["--at", at] if at else []
    assert told(f"job/{job}", "--scenario", QUEUES, *moment)["verdict"] == verdict


@pytest.mark.parametrize(
    "scenario, at, answers",
    [
        pytest.param("sequence", "30s", ["preempting", "needs preemption", "needs preemption"], id="one preempts"),
        pytest.param("sequence", "75s", ["admitted"], id="the next one has"),
        pytest.param("cut-off", "200s", ["not connected", "needs preemption", "needs preemption"], id="one is cut off"),
    ],
)
def test_at_home_each_worker_cluster_is_shown_with_its_answer(scenario, at, answers):
    file = str(ROOT / "tests" / "scenarios" / "fleet" / f"{scenario}.yaml")
    workers = told("job/urgent", "--scenario", file, "--at", at)["workers"]
    assert [one["answer"] for one in workers] == answers
    if len(workers) > 1:
        assert workers[0]["why"].startswith("allowed to preempt ")
        assert workers[1]["why"].startswith("its gate is closed; would evict 1 workload of priority up to 100, ")


def test_the_limit_and_the_holders_are_those_of_that_moment():
    answer = told("job/newsletter", "--scenario", QUEUES, "--at", "20s")
    (short,) = answer["flavors"][0]["shortages"]
    assert (short["limit"], short["node"]["name"], short["capacity"], short["used"]) == (
        "borrowingLimit",
        "sales",
        "6",
        "6",
    )
    assert [one["amount"] for one in short["holders"]] == ["4", "2"]


def changed(document, change):
    """The scenario with the quota that an answer advises to raise."""
    of, (amount,) = change["of"], change["amounts"]
    for manifest in document["clusters"][0]["objects"]:
        if (manifest["kind"], manifest["metadata"]["name"]) == (of["kind"], of["name"]):
            (resource,) = manifest["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
            resource[change["field"]] = amount["to"]
            return document
    raise AssertionError(f"{of} is not in the scenario")


def test_with_the_change_that_is_advised_the_engine_admits_it(tmp_path):
    """The answer is followed in a run of its own."""
    remedies = told("job/newsletter", "--scenario", QUEUES, "--at", "20s")["remedies"]
    raises = [remedy["change"] for remedy in remedies if remedy["change"]["kind"] == "RaiseQuota"]
    assert [change["field"] for change in raises] == ["borrowingLimit", "nominalQuota"]
    for number, change in enumerate(raises):
        document = changed(yaml.safe_load(Path(QUEUES).read_text()), change)
        document.pop("expect", None)
        file = tmp_path / f"{number}.yaml"
        file.write_text(yaml.safe_dump(document))
        assert told("job/newsletter", "--scenario", str(file), "--at", "20s")["verdict"] == "Admitted", change["field"]


@pytest.mark.parametrize(
    "arguments, status, said",
    [
        pytest.param(["job/x", "--scenario", "nowhere.yaml"], 2, "nowhere.yaml: cannot be read", id="no such file"),
        pytest.param(
            ["job/x", "--scenario", QUEUES, "--at", "soon"], 2, "expected a duration such as 90s", id="no time"
        ),
        pytest.param(["job/x", "--scenario", QUEUES, "--at", "9h"], 2, "before --at 9h", id="after the end"),
        pytest.param(["job/newsleter", "--scenario", QUEUES], 1, "did you mean job/newsletter", id="no such job"),
    ],
)
def test_what_is_wrong_is_said(arguments, status, said):
    result = explain(*arguments)
    assert (result.exit_code, result.stdout) == (status, "")
    assert said in result.stderr


def test_one_seed_gives_one_answer():
    answers = {explain("job/newsletter", "--scenario", QUEUES, "--at", "20s", "--seed", "7").stdout for _ in range(2)}
    assert len(answers) == 1


def test_the_page_about_queues_shows_what_is_said():
    page = (ROOT / "docs" / "queues.md").read_text()
    answer = explain("job/model", "--scenario", QUEUES, "--at", "20s").stdout
    assert f"explain workload job/model --scenario examples/11-queues/scenario.yaml --at 20s\n{answer}```" in page
