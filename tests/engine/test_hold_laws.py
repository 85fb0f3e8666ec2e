"""The laws of holds over some random histories each; `make nightly` looks at a hundred thousand."""

import pytest
from hold_laws import LAWS


@pytest.mark.parametrize("first", range(0, 40, 10))
@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_law_holds(law, first):
    for seed in range(first, first + 10):
        law(seed)
