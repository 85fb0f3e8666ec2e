"""What the pages on gangs and preemption show is what happens."""

import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from headgate.api.configuration import settings_from
from headgate.apiserver.cel import compile_expression
from headgate.model.settings import Point
from headgate.simulator.scenario import parse_scenario
from headgate.simulator.virtual_time import run
from headgate.ui.cli import main

DOCS = Path(__file__).parents[2] / "docs"
GANGS, PREEMPTION = (DOCS / "gangs.md").read_text(), (DOCS / "preemption.md").read_text()
YAML = re.compile(r"^( *)```yaml\n(.*?)^ *```", re.DOTALL | re.MULTILINE)


def blocks(page):
    return [yaml.safe_load_all(re.sub(rf"^{each[1]}", "", each[2], flags=re.MULTILINE)) for each in YAML.finditer(page)]


def test_the_workload_and_its_pod_are_accepted_and_understood():
    workload, pod = blocks(GANGS.replace("{schedulerName: headgate, ...}", "{schedulerName: headgate}"))[0]
    pod["spec"]["containers"] = [{"name": "c", "image": "i"}]
    named = [workload["spec"]["priorityClassName"], workload["spec"]["preemptionPriorityClassName"]]
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for value, name in enumerate(named, start=1)
    ]
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": workload["metadata"]["namespace"]}}
    main_cluster = {"name": "main", "objects": [home, *classes, workload, pod]}
    report = run(parse_scenario(yaml.safe_dump({"kind": "Scenario", "clusters": [main_cluster]}), "gangs.md"))
    (entry,) = report.journal
    assert entry["message"] == "waiting for its gang to have at least 4 pods"
    assert "waiting for its gang to have at least 4\n  pods" in GANGS


@pytest.mark.parametrize(
    "chosen, shield, allowed",
    [
        pytest.param("", "", True, id="no shield"),
        pytest.param("web", "", True, id="a class and no shield"),
        pytest.param("web", "web", True, id="a shield that is none"),
        pytest.param("batch", "batch-safe", True, id="the one that is allowed"),
        pytest.param("web", "batch-safe", False, id="that one for others"),
        pytest.param("batch", "top", False, id="a higher one"),
        pytest.param("", "top", False, id="one without a class"),
    ],
)
def test_the_policy_for_shields_says_what_it_promises(chosen, shield, allowed):
    (policy,) = next(block for block in map(list, blocks(GANGS)) if "Policy" in block[0]["kind"])
    (validation,) = policy["spec"]["validations"]
    expression = compile_expression(validation["expression"].replace("object.", "self."), optional_old=False)
    given = {"priorityClassName": chosen, "preemptionPriorityClassName": shield}
    spec = {field: name for field, name in given.items() if name}
    assert expression.evaluate({"spec": spec}, None) is allowed


def test_the_receipt_is_the_one_the_command_prints():
    command, *shown = re.search(r"^\$ headgate (.*?)^```", PREEMPTION, re.DOTALL | re.MULTILINE)[1].splitlines()
    told = CliRunner().invoke(main, command.split()).stdout.splitlines()
    assert [_uncertified(line) for line in told[: len(shown)]] == [_uncertified(line) for line in shown]


def _uncertified(line):
    """What the certificate says depends on what is installed."""
    return line.partition(", certificate")[0]


def test_the_configuration_shown_turns_preemption_off():
    (document,) = list(blocks(PREEMPTION)[-1])
    settings = settings_from(document, "preemption.md")
    assert not settings.profiles[0].has_on("DefaultPreemption", Point.POST_FILTER)
    assert (settings.preemption.certify, settings.preemption.certify_seconds) == (True, 0.05)


@pytest.mark.parametrize("page", [GANGS, PREEMPTION], ids=["gangs", "preemption"])
def test_the_pages_they_point_to_exist(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page):
        assert (DOCS / target).exists(), target
