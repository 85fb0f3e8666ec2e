"""Limit ranges and runtime classes: waiting workloads follow them, and what they forbid is not admitted."""

import pytest
from builders import amounts
from msgspec import structs
from quota_steps import QuotaSteps, local, namespace, queue, work

from headgate.model.keys import Key, Kind
from headgate.model.objects import Bounds, LimitRange, RuntimeClass
from headgate.model.pod import PodShape
from headgate.model.queues import PodSet, QueueingStrategy
from headgate.model.resources import ContainerNeeds, TemplateNeeds

TOO_MUCH = (
    "resources didn't satisfy LimitRange constraints: spec.podSets[0].template.spec.containers[0]: "
    'Invalid value: ["cpu"]: requests must not be above the limitRange max'
)


def limits(space="default", name="limits", **bounds):
    made = Bounds(**{field: amounts(cpu * 1000) for field, cpu in bounds.items()})
    return LimitRange(Key(Kind.LIMIT_RANGE, space, name), f"uid-{name}", "1", (made,))


def sandbox(cpu):
    return RuntimeClass(Key(Kind.RUNTIME_CLASS, "", "sandbox"), "uid-sandbox", "1", amounts(cpu * 1000))


def of_template(name="a", cpu=0, **fields):
    """A workload of one pod with one container that asks for that many cores, or says nothing."""
    asked = amounts(cpu * 1000)
    needs = TemplateNeeds((ContainerNeeds(asked),), runtime_class=fields.pop("runtime_class", ""))
    return work(name, pod_sets=(PodSet("main", PodShape(requests=asked), needs=needs),), **fields)


def used(steps, name="a"):
    (given,) = steps[name].status.admission.pod_sets
    return given.usage["cpu"]


def test_a_workload_is_charged_what_its_pods_get_by_default():
    steps = QuotaSteps(limits(default_request=2), queue(cpu=3), of_template("a"), of_template("b", created=1.0))
    assert steps.admitted == ["a"]
    assert used(steps) == 2000
    assert "1 more needed" in steps.condition("b", "QuotaReserved")[2]
    assert steps["b"].status.resource_requests == (("main", amounts(2000)),)


def test_defaults_of_another_namespace_do_not_matter():
    steps = QuotaSteps(limits("elsewhere", default_request=5), queue(), of_template("a", cpu=1))
    assert used(steps) == 1000


@pytest.mark.parametrize("strategy", QueueingStrategy)
def test_a_workload_out_of_bounds_is_not_admitted_and_told_why(strategy):
    steps = QuotaSteps(limits(max=1), queue(cpu=9, strategy=strategy), of_template("a", cpu=2))
    assert steps.admitted == []
    assert steps.condition("a", "QuotaReserved") == ("False", "Misconfigured", TOO_MUCH)


def test_it_is_told_once():
    steps = QuotaSteps(limits(max=1), queue(cpu=9), of_template("a", cpu=2))
    before = len(steps.written)
    steps.see(steps["a"]).later(1.0)
    assert len(steps.written) == before


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda steps, known: steps.see(limits(max=2)), id="it becomes wider"),
        pytest.param(lambda steps, known: steps.lose(known), id="it goes away"),
    ],
)
def test_who_was_out_of_bounds_gets_another_chance_when_the_limit_range_changes(change):
    known = limits(max=1)
    steps = QuotaSteps(known, queue(cpu=9), of_template("a", cpu=2))
    change(steps, known)
    assert steps.admitted == ["a"]


def test_who_asked_for_too_much_by_default_gets_another_chance():
    steps = QuotaSteps(limits(default_request=4), queue(cpu=2), of_template("a"))
    assert steps.reason("a") == ("False", "ExceedsMaxQuota")
    steps.see(limits(default_request=1))
    assert (steps.admitted, used(steps)) == (["a"], 1000)


def test_a_limit_range_says_nothing_to_those_who_have_quota():
    steps = QuotaSteps(queue(cpu=2), of_template("a", cpu=2)).see(limits(max=1, default_request=1))
    assert (steps.admitted, used(steps)) == (["a"], 2000)


def test_a_limit_range_wakes_only_its_own_namespace():
    other = of_template("b", cpu=2, space="other")
    steps = QuotaSteps(namespace("other"), local(space="other"), limits(max=1), limits("other", "o", max=1))
    steps.see(queue(cpu=9), of_template("a", cpu=2), other)
    written = len(steps.written)
    steps.see(limits("other", "o", max=2))
    assert steps.admitted == ["b"]
    assert not [write for write in steps.written[written:] if write.target.key.name == "a"]


def test_another_version_of_the_same_limit_range_wakes_nobody():
    known = limits(max=1)
    steps = QuotaSteps(known, queue(cpu=9), of_template("a", cpu=2))
    attempts = steps.number("kueue_admission_attempts_total", result="inadmissible")
    assert attempts > 0
    steps.see(structs.replace(known, version="9"))
    assert steps.number("kueue_admission_attempts_total", result="inadmissible") == attempts


def test_the_overhead_of_a_runtime_class_is_charged():
    steps = QuotaSteps(sandbox(1), queue(cpu=9), of_template("a", cpu=2, runtime_class="sandbox"))
    assert used(steps) == 3000


def test_who_waits_follows_its_runtime_class():
    steps = QuotaSteps(sandbox(3), queue(cpu=2), of_template("a", cpu=1, runtime_class="sandbox"))
    assert steps.admitted == []
    steps.see(sandbox(1))
    assert (steps.admitted, used(steps)) == (["a"], 2000)


def test_a_runtime_class_that_goes_away_charges_nobody():
    gone = sandbox(3)
    steps = QuotaSteps(gone, queue(cpu=2), of_template("a", cpu=1, runtime_class="sandbox")).lose(gone)
    assert used(steps) == 1000
