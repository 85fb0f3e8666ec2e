"""A few random fleets for each law of whole fleets; `make nightly` runs many."""

import pytest
from fleet_run_laws import LAWS

SEEDS = 2


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_law_of_fleets_holds(law, seed):
    LAWS[law](seed)


@pytest.mark.parametrize(
    "law, seed",
    [
        pytest.param(
            "what_some_cluster_can_run_runs_and_leaves_nothing_behind",
            30027,
            id="a group that a worker evicts is not shown as failed at home",
        ),
        pytest.param(
            "what_some_cluster_can_run_runs_and_leaves_nothing_behind",
            800397,
            id="a member of a group is bound when another one has succeeded",
        ),
        pytest.param(
            "what_some_cluster_can_run_runs_and_leaves_nothing_behind",
            820223,
            id="pods that failed by an eviction are created anew where their group is dispatched to again at once",
        ),
        pytest.param(
            "what_some_cluster_can_run_runs_and_leaves_nothing_behind",
            830399,
            id="evicted at home while the cluster it ran on is cut off, it waits for that before it runs elsewhere",
        ),
        pytest.param(
            "what_is_deleted_at_home_is_deleted_everywhere",
            30046,
            id="a Workload that vanished is not written to until that is observed",
        ),
    ],
)
def test_a_history_that_broke_one_once(law, seed):
    LAWS[law](seed)
