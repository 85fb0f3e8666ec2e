"""The fleet of the examples, in short: fewer preemptions with gates, its table and its picture."""

import importlib.util
import xml.etree.ElementTree
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "18-fleet"
SPEC = importlib.util.spec_from_file_location("fleet_of_the_examples", FOLDER / "fleet.py")
fleet = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(fleet)
SHARE = 0.1
TWO_BURSTS = 0.35 * fleet.SECONDS


@pytest.fixture(scope="module")
def outcomes():
    work, workers = [task for task in fleet.tasks(SHARE) if task.at < TWO_BURSTS], fleet.names(SHARE)
    return {policy: fleet.simulate(work, workers, policy) for policy in ("no gates", "priced proposals")}


def test_with_gates_less_is_preempted_and_lost(outcomes):
    without, with_gates = outcomes["no gates"], outcomes["priced proposals"]
    assert 0 < len(with_gates.preemptions) < len(without.preemptions)
    assert with_gates.lost < without.lost
    assert without.gates == 0 < with_gates.gates


def test_the_picture_is_well_formed_and_shows_every_run(outcomes):
    drawn = xml.etree.ElementTree.fromstring(fleet.svg(list(outcomes.values())))
    assert len(drawn.findall("{http://www.w3.org/2000/svg}polyline")) == len(outcomes)


def test_the_readme_has_the_numbers_of_the_picture():
    readme, picture = (FOLDER / "README.md").read_text(), (FOLDER / "fleet.svg").read_text()
    rows = [line.strip("| ").split(" | ") for line in readme.splitlines() if line.startswith("| ")]
    shown = [row for row in rows if row[0] in fleet.POLICIES]
    assert [row[0] for row in shown] == list(fleet.POLICIES)
    for row in shown:
        assert f"{row[0]}: {row[2]} preemptions, {row[3]} pod-hours lost" in picture
