"""How often gangs were tried, and what came of it."""

from builders import gang, member, node, workload
from steps import Steps

from headgate.model.effects import Bind
from headgate.model.events import Outcome, WriteError

GROUPS = "scheduler_podgroup_schedule_attempts_total"
PODS = "scheduler_schedule_attempts_total"


def conflicting(steps):
    """The server refuses every binding of the last step."""
    binds = [effect for effect in steps.effects if isinstance(effect, Bind)]
    return steps.step(*(Outcome(bind, WriteError.CONFLICT) for bind in binds))


def test_a_gang_whose_bindings_fail_failed_once_and_rests_as_after_one_attempt():
    steps = conflicting(Steps(node("n"), workload("train", gang(3)), *(member(f"w{i}") for i in range(3))))
    assert steps.number(GROUPS, profile="headgate", result="error") == 1
    assert steps.number(PODS, profile="headgate", result="error") == 3
    assert steps.later(0.9).binds == {}
    assert len(steps.later(0.1).binds) == 3


def test_the_second_failure_counts_and_makes_it_rest_longer():
    steps = conflicting(Steps(node("n"), workload("train", gang(2)), member("w0"), member("w1")))
    conflicting(steps.later(1.0))
    assert steps.number(GROUPS, profile="headgate", result="error") == 2
    assert steps.later(1.9).binds == {}
    assert len(steps.later(0.1).binds) == 2


def test_who_follows_a_gang_that_has_started_is_a_pod_and_no_attempt_of_the_gang():
    steps = Steps(node("n"), workload("train", gang(1)), member("w0")).accepted()
    steps.see(member("w1")).accepted()
    assert steps.number(GROUPS, profile="headgate", result="scheduled") == 1
    assert steps.number(PODS, profile="headgate", result="scheduled") == 2
