"""The autoscaled day of the examples, in short: its runs, its table and its picture."""

import importlib.util
import sys
import xml.etree.ElementTree
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "16-autoscaled-day"
SPEC = importlib.util.spec_from_file_location("autoscaled_day", FOLDER / "day.py")
day = importlib.util.module_from_spec(SPEC)
sys.modules["autoscaled_day"] = day
SPEC.loader.exec_module(day)
HOURS, NODES = 0.5, 20


@pytest.fixture(scope="module")
def outcomes():
    work = day.day(HOURS)
    return {(kind, mode): day.simulate(work, kind, mode, HOURS, NODES) for kind in day.AUTOSCALERS for mode in day.Mode}


@pytest.mark.parametrize("mode", [day.Mode.GATES, day.Mode.KUEUE])
@pytest.mark.parametrize("kind", day.AUTOSCALERS)
def test_with_gates_and_in_kueue_queues_no_scale_up_is_false_and_none_is_missed(outcomes, kind, mode):
    counts = outcomes[kind, mode].counts
    assert (counts["falseScaleUps"], counts["missedScaleUps"]) == (0, 0)
    assert counts["nodesAdded"] > 0


@pytest.mark.parametrize("kind", day.AUTOSCALERS)
def test_without_gates_nodes_are_ordered_for_pods_that_their_queue_does_not_allow(outcomes, kind):
    without, gated = outcomes[kind, day.Mode.NO_GATES].counts, outcomes[kind, day.Mode.GATES].counts
    assert without["falseReasons"]["quota"] > 0
    assert without["nodesAdded"] > gated["nodesAdded"]


def test_there_are_never_more_nodes_than_there_may_be(outcomes):
    assert all(nodes <= NODES for each in outcomes.values() for _, nodes in each.nodes)


def test_the_picture_is_well_formed_and_shows_every_autoscaler_with_gates_and_without(outcomes):
    drawn = xml.etree.ElementTree.fromstring(day.svg(list(outcomes.values()), HOURS, NODES))
    texts = [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert len(drawn.findall("{http://www.w3.org/2000/svg}polyline")) == 4
    for each in outcomes.values():
        assert (f"{each.mode}: {each.orders}" in texts) == (each.mode in day.COLORS)


def test_the_readme_has_the_numbers_of_the_picture_and_of_a_whole_day():
    readme, picture = (FOLDER / "README.md").read_text(), (FOLDER / "day.svg").read_text()
    rows = {cells[0]: cells[1:] for line in readme.splitlines() if len(cells := line.strip("| ").split(" | ")) == 9}
    for kind in day.AUTOSCALERS:
        for mode in day.Mode:
            _, ordered, false, missed, *_ = rows[f"{kind}, {mode}"]
            assert (false, missed) == ("0", "0") or mode is day.Mode.NO_GATES
            if mode in day.COLORS:
                assert f"{mode}: {ordered} nodes ordered, {false} of them false, {missed} missed" in picture
