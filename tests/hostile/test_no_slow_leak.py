"""Nothing is kept of what is gone: whoever came and went leaves no container larger than it was."""

import importlib
import pkgutil

import pytest
from families import Life, grown, sizes

import headgate
from headgate.engine.journal import KEPT_RECEIPTS
from headgate.placement.domains import KEPT_KEYS
from headgate.placement.filters import KEPT_DEMANDS
from headgate.placement.neighbours import KEPT_QUESTIONS
from headgate.placement.placer import KEPT_LOOKS, KEPT_SHAPES
from headgate.placement.spreading import KEPT_GROUNDS
from headgate.placement.table import KEPT_CHANGES

FAMILIES = 40
BOUNDED = {
    "_answers": KEPT_QUESTIONS,
    "_by_demand": KEPT_DEMANDS,
    "_by_key": KEPT_KEYS,
    "_grounds": KEPT_GROUNDS,
    "_known": KEPT_LOOKS,
    "_rankings": KEPT_SHAPES,
    "_receipts": KEPT_RECEIPTS,
    "_rows": KEPT_CHANGES,
}
"""What is kept for the next one alike, whoever comes, up to a number; `make nightly` goes beyond these numbers."""
OF_METRICS = ("._metrics.", "unschedulable_by", "gang_list")
"""Counters by labels that are not users' to choose, and lines that are used again for the next gang."""


def leaked(before, after):
    return {
        path: (was, size)
        for path, (was, size) in grown(before, after).items()
        if not any(part in path for part in (*BOUNDED, *OF_METRICS))
    }


@pytest.mark.parametrize("seed", [1, 2])
def test_families_of_objects_come_and_go_and_leave_nothing_behind(seed):
    life = Life(seed)
    life.pass_by(FAMILIES)
    before = sizes(life.engine)
    life.pass_by(FAMILIES)
    after = sizes(life.engine)
    assert leaked(before, after) == {}
    for path, size in after.items():
        most = next((most for part, most in BOUNDED.items() if path.endswith(f".{part}")), size)
        assert size <= most * len(life.engine.reads), path


def test_the_walk_finds_what_grows():
    life = Life(1)
    before = sizes(life.engine)
    life.engine.journal.kept = {}
    life.engine.journal.kept["one"] = "more"
    assert grown(before, sizes(life.engine)) == {"engine.journal.kept": (0, 1)}


def test_what_is_remembered_for_the_life_of_a_process_is_bounded():
    names = [module.name for module in pkgutil.walk_packages(headgate.__path__, "headgate.")]
    caches = {
        f"{name}.{known}": value.cache_parameters()["maxsize"]
        for name in names
        for known, value in vars(importlib.import_module(name)).items()
        if hasattr(value, "cache_parameters") and value.__module__ == name
    }
    assert caches
    assert [name for name, most in caches.items() if most is None] == []
