"""What hostile objects have found, each by itself."""

import json
import time

import pytest
from builders import amounts, bound, gang, member, node, workload
from msgspec.structs import replace
from steps import Steps
from volcano_scenes import Queues, elsewhere, grouped, pod_group, queue, queued

from headgate.api.admission import InvalidReview, answer
from headgate.api.decode import InvalidObject, decode, decode_list, decode_watch, identity
from headgate.api.wire import format_micro_time, format_time, parse_time
from headgate.engine.integrations.job_index import FlavorsAndClasses
from headgate.gates.webhooks import HANDLERS
from headgate.model.admission import (
    AdmissionAllowed,
    AdmissionRequest,
    AdmissionWebhook,
    WebhookSettings,
)
from headgate.model.keys import Key, Kind
from headgate.model.settings import QuotaSettings
from headgate.model.volcano import QUEUE_ANNOTATIONS, DequeueStrategy

META = {"name": "a", "namespace": "d"}


def pod(**spec):
    return json.dumps({"metadata": META, "spec": {"containers": [], **spec}}).encode()


@pytest.mark.parametrize(
    "spec, path",
    [
        pytest.param({"priority": 2**63}, "$.spec.priority", id="a priority beyond 32 bits"),
        pytest.param(
            {"terminationGracePeriodSeconds": 10**30},
            "$.spec.terminationGracePeriodSeconds",
            id="a grace period beyond 64 bits",
        ),
        pytest.param(
            {"containers": [{"resources": {"requests": {"cpu": "-1"}}}]},
            "$.spec.containers[0].resources.requests.cpu",
            id="a request below zero",
        ),
        pytest.param(
            {"containers": [{"resources": {"requests": {"cpu": "1e999999999"}}}]},
            "$.spec.containers[0].resources.requests.cpu",
            id="an exponent bomb",
        ),
    ],
)
def test_numbers_beyond_what_kubernetes_has_are_refused_by_the_field(spec, path):
    with pytest.raises(InvalidObject) as refused:
        decode(Kind.POD, pod(**spec))
    assert refused.value.path == path


def test_a_number_of_very_many_digits_is_refused():
    raw = pod(containers=[{"resources": {"requests": {"memory": "@"}}}]).replace(b'"@"', b"1" * 100_000)
    with pytest.raises(InvalidObject):
        decode(Kind.POD, raw)


def nested(levels):
    return b'{"a":[' * levels + b'"}\\"]"' + b"]}" * levels


@pytest.mark.parametrize("levels", [10, 600, 50_000])
def test_what_is_nested_very_deep_and_not_looked_at_does_not_hide_the_rest(levels):
    """One such object in a list must not cost us the list."""
    raw = pod(nodeName="n", odd="@").replace(b'"@"', nested(levels))
    listed = decode_list(b'{"metadata":{"resourceVersion":"7"},"items":[' + raw + b"," + pod(nodeName="m") + b"]}")
    assert [decode(Kind.POD, item).node for item in listed.items] == ["n", "m"]
    assert identity(Kind.POD, raw).key.name == "a"
    assert decode(Kind.POD, decode_watch(b'{"type":"ADDED","object":' + raw + b"}").object).node == "n"


def reviewed(levels):
    raw = pod(nodeName="n", odd="@").replace(b'"@"', nested(levels))
    with pytest.raises(StopIteration) as done:
        next(answer(b'{"request":{"uid":"u","resource":{"resource":"pods"},"object":' + raw + b"}}", _allow))
    return done.value.value["response"]


def _allow(_):
    return AdmissionAllowed()


@pytest.mark.parametrize("levels", [10, 600, 50_000])
def test_a_review_of_something_nested_very_deep_is_answered(levels):
    assert reviewed(levels) == {"uid": "u", "allowed": True}


def test_a_large_review_that_is_nested_very_deep_is_refused_at_once():
    """Leaving out what is nested too deep costs others time; the object is refused for who sent it."""
    with pytest.raises(InvalidReview, match="nested so deep"):
        reviewed(100_000)


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"])
def test_a_time_that_cannot_be_written_is_written_as_the_nearest_that_can(text):
    at = parse_time(text)
    assert parse_time(format_time(at)) == pytest.approx(at, abs=14 * 3600)
    assert format_micro_time(at).startswith(format_time(at)[:19])


def test_a_pod_that_is_labelled_into_another_group_leaves_the_one_it_was_in():
    """A gang must not be placed with a pod that has left it and runs."""
    two = [member(f"w{n}") for n in range(2)]
    steps = Steps(node("n", cpu=150), workload("train", gang(2)), *two)
    assert steps.binds == {}
    steps.see(replace(bound(two[0], "n"), group=None, version="2"), node("m", cpu=400))
    steps.later(60)
    assert steps.binds == {}
    steps.see(member("w2"))
    assert set(steps.binds) == {"w1", "w2"}


def test_a_class_that_was_never_seen_can_be_gone():
    FlavorsAndClasses().drop(Key(Kind.COHORT, "", "a"), "")


@pytest.mark.parametrize(
    "new",
    [
        pytest.param({"metadata": "a"}, id="metadata that are text"),
        pytest.param({"metadata": {"labels": ["a"]}}, id="labels that are a list"),
        pytest.param({"metadata": {"annotations": {"a": 1}}}, id="an annotation that is a number"),
        pytest.param({"spec": 7}, id="a spec that is a number"),
        pytest.param({"spec": {"schedulingGates": ["g"]}}, id="gates that are texts"),
        pytest.param({"spec": {"parallelism": "2"}}, id="a count in words"),
        pytest.param({"metadata": {"finalizers": 7}}, id="finalizers that are a number"),
    ],
)
@pytest.mark.parametrize("webhook", list(AdmissionWebhook))
def test_a_webhook_leaves_what_is_not_well_typed_to_the_server(webhook, new):
    request = AdmissionRequest("d", new, None)
    assert HANDLERS[webhook](request, WebhookSettings(QuotaSettings(), lambda *_: "")) == AdmissionAllowed()


def test_what_a_webhook_raises_for_a_well_typed_object_is_not_hidden():
    def broken(_):
        raise RuntimeError("a rule is broken")

    request = AdmissionRequest("d", {"metadata": {"name": "c"}, "spec": {}}, None, broken)
    with pytest.raises(RuntimeError, match="a rule is broken"):
        HANDLERS[AdmissionWebhook.VALIDATE_COHORT](request, WebhookSettings(QuotaSettings(), lambda *_: ""))


MANY = 10_000


def far_down():
    """A queue below a queue, and so on."""
    return [queue(f"q{number}", 1000, f"q{number - 1}" if number else "root", guarantee=1) for number in range(MANY)]


def all_around():
    """A queue below a queue, and the first below the last."""
    return [queue(f"q{number}", 1000, f"q{(number - 1) % MANY}", guarantee=1) for number in range(MANY)]


@pytest.mark.parametrize("queues", [far_down, all_around])
def test_a_chain_or_a_circle_of_very_many_queues_harms_those_in_it_alone(queues):
    steps = Queues(queue("fine", 1000), *queues(), node("n"), queued("lost", of=f"q{MANY - 1}"), queued("a", of="fine"))
    assert steps.bound == {"a": "n"}
    assert steps.messages["lost"] == "waiting for its queue: more than 16 queues are above one another"


ABSURD = 10**18


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param({"capability": amounts(-1000)}, id="a capability below zero"),
        pytest.param({"guarantee": -1000}, id="a guarantee below zero"),
        pytest.param({"guarantee": ABSURD}, id="a guarantee beyond everything"),
        pytest.param({"deserved": ABSURD, "priority": -(2**31)}, id="deserving everything, with a priority below zero"),
        pytest.param({"weight": -1, "priority": 2**31 - 1}, id="a weight below zero, with the highest priority"),
        pytest.param({"parent": ""}, id="a second root"),
    ],
)
def test_a_queue_with_absurd_numbers_keeps_nobody_elses_pods_from_nodes(odd):
    strange = queue("odd", **{"capability": amounts(500), **odd})
    steps = Queues(queue("team", 1000), strange, node("n"), queued("b", 700, "odd"), queued("a", created=1.0))
    assert steps.bound == {"a": "n"}


def test_a_tenant_of_a_queue_without_a_limit_cannot_reserve_all_there_is():
    """Two requests that together are the largest number there is, and no queue above that has a limit."""
    most = [elsewhere("m0", 2**62 - 1, of="free"), elsewhere("m1", 1, of="free", created=1.0)]
    steps = Queues(queue("free"), queue("team", 1000), *most)
    assert steps.let_go == ["m0", "m1"]
    steps.see(node("n"), queued("a", created=2.0))
    assert steps.binds == {"a": "n"}


def test_a_group_that_wants_more_members_than_there_can_be_holds_back_nobody_else():
    fifo = queue("team", 1000, dequeue=DequeueStrategy.FIFO)
    group = pod_group(members=2**31 - 1, volcano={"min_resources": amounts(-1, ABSURD)})
    steps = Queues(fifo, group, node("n"), grouped("m0"), queued("a", created=1.0))
    assert steps.bound == {"a": "n"}


def test_a_queue_that_limits_very_many_resources_is_refused_by_the_field():
    """Every queue has an account of every resource that one of them limits."""
    spec = {"capability": {f"example.com/r{number}": "1" for number in range(257)}}
    raw = json.dumps({"metadata": {"name": "team"}, "spec": spec}).encode()
    with pytest.raises(InvalidObject, match="expected at most 256 resources, found 257") as refused:
        decode(Kind.VOLCANO_QUEUE, raw)
    assert refused.value.path == "$.spec.capability"


def seconds_for(pods):
    """CPU until so many pods that no node fits were tried, all in one fifo queue."""
    fifo = queue("team", 10**9, dequeue=DequeueStrategy.FIFO)
    waiting = [elsewhere(f"p{number:05}", created=float(number), gates=(), annotations={}) for number in range(pods)]
    unasked = [replace(each, annotations={QUEUE_ANNOTATIONS[0]: "team"}) for each in waiting]
    began = time.process_time()
    Queues(fifo, node("n"), *unasked)
    return time.process_time() - began


def test_the_cost_of_pods_in_a_fifo_queue_does_not_grow_with_the_square_of_their_number():
    assert seconds_for(2400) < 16 * seconds_for(400), "six times as many"
