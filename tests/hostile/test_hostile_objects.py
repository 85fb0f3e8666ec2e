"""A few thousand hostile objects; `make nightly` makes two hundred thousand."""

from random import Random

import pytest
from hostile_laws import KINDS, LAWS, read
from hostile_objects import hostile, well_formed

HISTORIES = {"decided_about": 30, "answered": 100, "reread": 50, "told_by_workers": 10}  # of one test


@pytest.mark.parametrize("part", range(8))
@pytest.mark.parametrize("law", sorted(LAWS))
def test_hostile_objects_are_read_or_refused_decided_about_and_answered(law, part):
    count = HISTORIES[law]
    for seed in range(part * count, (part + 1) * count):
        LAWS[law](seed)


def test_what_is_hostile_is_made_of_what_is_well_formed():
    """Else it would be refused at the first glance, and nothing behind that would be tried."""
    for kind in KINDS:
        assert all(read(kind, well_formed(kind, Random(seed))) is not None for seed in range(10)), kind
    tried = [read(kind, hostile(kind, Random(seed))) for kind in KINDS for seed in range(10)]
    assert sum(one is not None for one in tried) > len(tried) // 3
