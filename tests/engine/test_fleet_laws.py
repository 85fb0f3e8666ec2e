"""The laws of the fleet plane over some random fleets each."""

import pytest
from fleet_laws import LAWS


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_law_holds(law, seed):
    law(seed)
