"""What the README shows is what happens."""

import re
from pathlib import Path

from headgate.simulator.scenario import parse_scenario
from headgate.simulator.virtual_time import run

README = (Path(__file__).parents[2] / "README.md").read_text()


def block(language):
    return re.search(rf"```{language}\n(.*?)```", README, re.DOTALL)[1]


def test_the_scenario_gives_the_timeline_beside_it():
    report = run(parse_scenario(block("yaml"), "README.md"))
    shown = [line for line in README.splitlines() if "Pod default/train" in line]
    told = [(entry["at"], entry["decision"], entry["message"]) for entry in report.journal]
    assert len(shown) == len(told) == 2
    for line, (at, decision, message) in zip(shown, told, strict=True):
        assert line.startswith(f"{at}s ")
        assert decision in line.split()
        assert line.endswith(message)


def test_the_make_commands_exist():
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    for verb in re.findall(r"`?make ([a-z-]+)`?", README):
        assert f"\n{verb}:" in makefile, verb


def test_the_pages_it_points_to_exist():
    for page in re.findall(r"\]\(([^)]+)\)", README):
        assert (Path(__file__).parents[2] / page).exists(), page
