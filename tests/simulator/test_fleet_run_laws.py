"""A few random fleets for each law of whole fleets; `make nightly` runs many."""

import pytest
from fleet_run_laws import LAWS

SEEDS = 2


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_law_of_fleets_holds(law, seed):
    LAWS[law](seed)
