"""Admission of Volcano's Queues and PodGroups, and the gate of pods that wait for capacity of their queue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from headgate.gates.fields import (
    ALLOWED,
    NEGATIVE,
    AdmissionFieldError,
    annotations_of,
    forbidden,
    invalid,
    is_going,
    not_found,
    response_to,
    spec_of,
    with_spec,
)
from headgate.model.admission import (
    AdmissionAllowed,
    AdmissionDenied,
    AdmissionRequest,
    AdmissionResponse,
    DeferredResponse,
    Json,
    WebhookSettings,
)
from headgate.model.keys import Key, Kind
from headgate.model.pod import Workload
from headgate.model.resources import Resources, amount_text, total
from headgate.model.volcano import (
    DEEPEST_QUEUE,
    DEFAULT_QUEUE,
    DEVICE_CLASS,
    QUEUE_GATE,
    QUEUE_GATES,
    ROOT,
    QueueState,
    VolcanoQueue,
    asks_for_gate,
)

MOST_WEIGHT = 65_535
NOT_SERVED = "is not served: its pods would be placed otherwise than it says"
KEPT = frozenset({ROOT, DEFAULT_QUEUE})
"""The queues that are always there."""


def gated_by_queue(request: AdmissionRequest, settings: WebhookSettings) -> AdmissionResponse:
    """Adds the queue-allocation gate to a pod of one of our schedulers that asks for it; other gates stay."""
    pod = request.new
    spec = spec_of(pod)
    ours = (spec.get("schedulerName") or "default-scheduler") in settings.gated_schedulers
    if not ours or spec.get("nodeName") or not asks_for_gate(annotations_of(pod)):
        return ALLOWED
    gates = spec.get("schedulingGates") or ()
    if any(gate["name"] in QUEUE_GATES for gate in gates):
        return ALLOWED
    return AdmissionAllowed(with_spec(pod, schedulingGates=[*gates, {"name": QUEUE_GATE}]))


def default_queue(request: AdmissionRequest, _settings: WebhookSettings) -> AdmissionResponse:
    """Fills in what a queue leaves out: that it is below the root and gives back what it borrowed."""
    spec, name = spec_of(request.new), (request.new.get("metadata") or {}).get("name")
    missing: dict[str, str | bool] = {} if spec.get("parent") or name == ROOT else {"parent": ROOT}
    if spec.get("reclaimable") is None:
        missing["reclaimable"] = True
    return AdmissionAllowed(with_spec(request.new, **missing)) if missing else ALLOWED


def default_pod_group(request: AdmissionRequest, _settings: WebhookSettings) -> AdmissionResponse:
    if spec_of(request.new).get("queue"):
        return ALLOWED
    return AdmissionAllowed(with_spec(request.new, queue=DEFAULT_QUEUE))


def validate_queue(request: AdmissionRequest, _settings: WebhookSettings) -> DeferredResponse:
    """Denies what would break the tree of queues, and the deletion of a queue in use."""
    found = yield Kind.VOLCANO_QUEUE
    others = {one.name: one for one in found if isinstance(one, VolcanoQueue)}
    old = request.decoded_old
    if not request.new:
        return _deletion(old, others) if isinstance(old, VolcanoQueue) else ALLOWED
    queue = request.decoded
    if not isinstance(queue, VolcanoQueue) or is_going(request.new):
        return ALLOWED
    others.pop(queue.name, None)
    errors = [*_unserved(request.new), *_own_errors(queue), *_place_errors(queue, others), *_sum_errors(queue, others)]
    if queue.name == ROOT and isinstance(old, VolcanoQueue) and _limits(queue) != _limits(old):
        errors.append(forbidden("spec", "the root queue can not be changed"))
    return response_to(errors)


def validate_pod_group(request: AdmissionRequest, _settings: WebhookSettings) -> DeferredResponse:
    """Denies what is not served, and new PodGroups for a queue that is not there or not open."""
    group = request.decoded
    if not isinstance(group, Workload) or group.volcano is None or is_going(request.new):
        return ALLOWED
    if group.volcano.unsupported:
        return response_to([forbidden(group.volcano.unsupported, NOT_SERVED)])
    old = request.decoded_old
    before = old.volcano.queue if isinstance(old, Workload) and old.volcano is not None else ""
    wanted = group.volcano.queue
    if wanted == before:
        return ALLOWED
    found = yield Key(Kind.VOLCANO_QUEUE, "", wanted)
    queue = next((one for one in found if isinstance(one, VolcanoQueue)), None)
    if queue is None:
        return ALLOWED if wanted == DEFAULT_QUEUE else response_to([not_found("spec.queue", wanted)])
    if not queue.is_open:
        state = queue.state or QueueState.CLOSING
        return response_to([invalid("spec.queue", wanted, f"the queue is {state}, expected one that is Open")])
    everyone = yield Kind.VOLCANO_QUEUE
    children = [one.name for one in everyone if isinstance(one, VolcanoQueue) and one.parent == wanted]
    if children:
        detail = f"expected a queue without queues below it, this one has {min(children)}"
        return response_to([invalid("spec.queue", wanted, detail)])
    return ALLOWED


def _deletion(queue: VolcanoQueue, others: Mapping[str, VolcanoQueue]) -> AdmissionResponse:
    if queue.name in KEPT:
        return AdmissionDenied(f"the queue {queue.name} can not be deleted")
    children = sorted(one.name for one in others.values() if one.parent == queue.name)
    if children:
        return AdmissionDenied(f"the queue {queue.name} has queues below it: {', '.join(children[:5])}")
    if any(amount for _, amount in queue.allocated):
        return AdmissionDenied(f"the queue {queue.name} has pods on nodes; wait until they are gone")
    return ALLOWED


def _unserved(queue: Json) -> Iterator[AdmissionFieldError]:
    for field in ("affinity", "extendClusters"):
        if spec_of(queue).get(field):
            yield forbidden(f"spec.{field}", NOT_SERVED)


def _own_errors(queue: VolcanoQueue) -> Iterator[AdmissionFieldError]:
    named = (
        ("spec.capability", queue.capability),
        ("spec.guarantee.resource", queue.guarantee),
        ("spec.deserved", queue.deserved),
    )
    for path, amounts in named:
        for name, amount in amounts:
            if DEVICE_CLASS in name:
                yield forbidden(f"{path}[{name}]", "is not served: requests of devices through claims are not counted")
            if amount < 0:
                yield invalid(f"{path}[{name}]", amount_text(name, amount), NEGATIVE)
    yield from _exceeding("spec.guarantee.resource", queue.guarantee, "spec.deserved", queue.deserved)
    yield from _exceeding("spec.guarantee.resource", queue.guarantee, "spec.capability", queue.capability)
    yield from _exceeding("spec.deserved", queue.deserved, "spec.capability", queue.capability)
    if queue.priority < 0:
        yield invalid("spec.priority", queue.priority, NEGATIVE)
    if not 1 <= queue.weight <= MOST_WEIGHT:
        yield invalid("spec.weight", queue.weight, f"must be between 1 and {MOST_WEIGHT}")


def _exceeding(
    path: str, amounts: Resources, limit_path: str, limits: Resources, detail: str = "must not exceed {}"
) -> Iterator[AdmissionFieldError]:
    """Amounts above the limit of a resource that has one."""
    named = dict(limits.items)
    for name, amount in amounts:
        if name in named and amount > named[name]:
            text = detail.format(f"{limit_path}, {amount_text(name, named[name])}")
            yield invalid(f"{path}[{name}]", amount_text(name, amount), text)


def _place_errors(queue: VolcanoQueue, others: Mapping[str, VolcanoQueue]) -> Iterator[AdmissionFieldError]:
    if queue.name == ROOT:
        return
    if queue.parent == queue.name:
        yield invalid("spec.parent", queue.parent, "a queue can not be below itself")
        return
    above = _ancestors(queue, others)
    if above is None:
        yield invalid("spec.parent", queue.parent, f"the queue {queue.parent} is below this one, or below itself")
        return
    parent = others.get(queue.parent)
    if parent is None and queue.parent != ROOT:
        yield not_found("spec.parent", queue.parent)
    if parent is not None and _has_pods(parent, others):
        yield invalid("spec.parent", queue.parent, "the queue has pods of its own")
    if len(above) + 1 > DEEPEST_QUEUE:
        yield invalid("spec.parent", queue.parent, f"at most {DEEPEST_QUEUE} queues may be above one another")
    for name, amount in queue.capability:
        limit = next((one for one in above if name in dict(one.capability.items)), None)
        if limit is not None and amount > limit.capability[name]:
            most = amount_text(name, limit.capability[name])
            detail = f"must not exceed the capability of queue {limit.name}, {most}"
            yield invalid(f"spec.capability[{name}]", amount_text(name, amount), detail)


def _has_pods(parent: VolcanoQueue, others: Mapping[str, VolcanoQueue]) -> bool:
    """Whether pods are in the queue itself; where there are queues below it, what it uses is theirs."""
    has_children = any(one.parent == parent.name for one in others.values())
    return parent.name != ROOT and not has_children and any(amount for _, amount in parent.allocated)


def _ancestors(queue: VolcanoQueue, others: Mapping[str, VolcanoQueue]) -> list[VolcanoQueue] | None:
    """The queues above it that are there, nearest first; None when the way up leads in a circle."""
    above: list[VolcanoQueue] = []
    seen, name = {queue.name}, queue.parent
    while name and name in others:
        if name in seen:
            return None
        seen.add(name)
        above.append(others[name])
        name = others[name].parent
    return None if name in seen else above


def _sum_errors(queue: VolcanoQueue, others: Mapping[str, VolcanoQueue]) -> Iterator[AdmissionFieldError]:
    """What the queues below one are guaranteed or deserve together is not more than it is or does itself."""
    parent = others.get(queue.parent)
    if parent is not None:
        beside = [queue, *(one for one in others.values() if one.parent == parent.name)]
        yield from _sums(beside, parent, f"of queue {parent.name}")
    children = [one for one in others.values() if one.parent == queue.name]
    if children:
        yield from _sums(children, queue, "that this queue says")


def _sums(children: Sequence[VolcanoQueue], parent: VolcanoQueue, whose: str) -> Iterator[AdmissionFieldError]:
    detail = f"the queues below {parent.name} have this much together, more than {{}}"
    guaranteed, deserved = total(one.guarantee for one in children), total(one.deserved for one in children)
    path, deserved_path = "spec.guarantee.resource", "spec.deserved"
    yield from _exceeding(path, guaranteed, f"the guarantee {whose}", parent.guarantee, detail)
    yield from _exceeding(path, guaranteed, f"the capability {whose}", parent.capability, detail)
    yield from _exceeding(deserved_path, deserved, f"the deserved {whose}", parent.deserved, detail)


def _limits(queue: VolcanoQueue) -> tuple[Resources, Resources, Resources, str]:
    return queue.capability, queue.guarantee, queue.deserved, queue.parent
