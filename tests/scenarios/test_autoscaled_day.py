"""The autoscaled day of the examples, in short: its four runs, its table and its picture."""

import importlib.util
import xml.etree.ElementTree
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "16-autoscaled-day"
SPEC = importlib.util.spec_from_file_location("autoscaled_day", FOLDER / "day.py")
day = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(day)
HOURS, NODES = 0.75, 20


@pytest.fixture(scope="module")
def outcomes():
    work = day.day(HOURS)
    return [day.simulate(work, kind, queues, HOURS, NODES) for kind in day.AUTOSCALERS for queues in (True, False)]


def test_with_queues_no_scale_up_is_false_for_want_of_quota_and_none_is_missed(outcomes):
    for each in outcomes:
        if each.queues:
            assert (each.counts["falseReasons"]["quota"], each.counts["missedScaleUps"]) == (0, 0), each.title
            assert each.counts["nodesAdded"] > 0


def test_without_queues_more_nodes_are_ordered(outcomes):
    ordered = {(each.autoscaler, each.queues): each.counts["nodesAdded"] for each in outcomes}
    for kind in day.AUTOSCALERS:
        assert ordered[kind, False] > ordered[kind, True]


def test_there_are_never_more_nodes_than_there_may_be(outcomes):
    assert all(nodes <= NODES for each in outcomes for _, nodes in each.nodes)


def test_the_picture_is_well_formed_and_shows_every_run(outcomes):
    drawn = xml.etree.ElementTree.fromstring(day.svg(outcomes, HOURS, NODES))
    assert len(drawn.findall("{http://www.w3.org/2000/svg}polyline")) == 4


def test_the_readme_has_the_numbers_of_the_picture():
    readme, picture = (FOLDER / "README.md").read_text(), (FOLDER / "day.svg").read_text()
    rows = [line.split(" | ") for line in readme.splitlines() if " queues | " in line]
    assert len(rows) == 4
    for row in rows:
        assert f"{row[2]} nodes ordered, {row[5]} without quota, {row[6]} unused, {row[7]} missed" in picture
