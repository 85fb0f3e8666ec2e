"""Volcano's queues over random histories, with lost answers, restarts and capacity that comes and goes."""

import pytest
from queue_laws import check_history, check_progress


@pytest.mark.parametrize("seed", range(12))
def test_usage_and_reservations_never_exceed_a_capability_and_no_foreign_gate_is_removed(seed):
    check_history(seed)


@pytest.mark.parametrize("seed", range(6))
def test_some_pod_always_goes_on_until_all_have_run(seed):
    check_progress(seed)
