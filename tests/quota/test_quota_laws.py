"""The laws of quota over a few random histories each; `make nightly` looks at a hundred thousand."""

import pytest
from quota_laws import LAWS


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_law_holds(law, seed):
    law(seed)
