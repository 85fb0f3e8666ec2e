"""The laws of quota over a few random histories each; `make nightly` looks at a hundred thousand."""

import pytest
from quota_laws import LAWS


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_law_holds(law, seed):
    law(seed)


@pytest.mark.parametrize(
    "seed", [1032, 1404], ids=["a flavor left out was not tried again", "the tree was not settled"]
)
def test_who_was_once_left_waiting_is_not(seed):
    LAWS["nobody_waits_who_fits_in_a_cohort_where_room_is_kept_for_a_cycle"](seed)


def test_two_that_keep_room_from_each_other_in_turn_come_to_an_end():
    LAWS["nobody_waits_who_fits_in_a_cohort_where_room_is_kept_for_a_cycle"](11356)
