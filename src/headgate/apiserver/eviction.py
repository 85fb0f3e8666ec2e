"""Eviction: a pod is deleted if its disruption budget allows it."""

from __future__ import annotations

import msgspec
from msgspec import Struct, structs

from headgate.apiserver.deletion import ENDED, DeleteOptions, Deleter
from headgate.apiserver.messages import Json
from headgate.apiserver.metadata import timestamp, with_condition
from headgate.apiserver.registry import RequestInfo
from headgate.apiserver.selectors import object_selector
from headgate.apiserver.status import StatusError, bad_request, too_many_requests
from headgate.apiserver.storage import Collection, Revision, Store
from headgate.apiserver.writing import found

WOULD_VIOLATE = "Cannot evict pod as it would violate the pod's disruption budget."
TWO_BUDGETS = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


class _Metadata(Struct, frozen=True, gc=False):
    name: str = ""


class Eviction(Struct, frozen=True, rename="camel"):
    metadata: _Metadata = _Metadata()
    delete_options: DeleteOptions | None = None


_decoder = msgspec.json.Decoder(Eviction)


def decode_eviction(body: bytes) -> Eviction:
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError as trouble:
        raise bad_request(f"the object provided is unrecognized (must be of type Eviction): {trouble}") from None


def evict(store: Store, deleter: Deleter, errand: RequestInfo, eviction: Eviction) -> None:
    """Delete the pod if its disruption budget allows, and count it there."""
    if eviction.metadata.name not in ("", errand.name):
        raise bad_request("name in URL does not match name in Eviction object")
    pod = found(errand).value
    budgets = store.collection("policy", "poddisruptionbudgets")
    budget = None if _is_free(pod) else _budget_of(budgets, errand, pod)
    if budget is not None and not _is_unready_allowed(pod, budget.value):
        _refuse_eviction(errand, budget.value)
        if not errand.dry_run:
            store.put(budgets, errand.namespace, budget.value["metadata"]["name"], _counted(budget.value, errand))
    _delete_evicted(store, deleter, errand, eviction.delete_options or DeleteOptions())


def _is_free(pod: Json) -> bool:
    """Not running yet or any more, so no disruption."""
    phase = (pod.get("status") or {}).get("phase")
    return phase in (*ENDED, "Pending") or pod["metadata"].get("deletionTimestamp") is not None


def _budget_of(budgets: Collection, errand: RequestInfo, pod: Json) -> Revision | None:
    labels = pod["metadata"].get("labels") or {}
    mine = [
        budget
        for _, _, budget in budgets.items(errand.namespace)
        if object_selector((budget.value.get("spec") or {}).get("selector"))(labels)
    ]
    if len(mine) > 1:
        raise StatusError(500, "InternalError", f"Internal error occurred: {TWO_BUDGETS}")
    return mine[0] if mine else None


def _is_unready_allowed(pod: Json, budget: Json) -> bool:
    """A pod that is not ready may go if the budget says so or is met without it."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    if any(one["type"] == "Ready" and one["status"] == "True" for one in conditions):
        return False
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    wanted: int = status.get("desiredHealthy", 0)
    return wanted > 0 and bool(status.get("currentHealthy", 0) >= wanted)


def _refuse_eviction(errand: RequestInfo, budget: Json) -> None:
    status, name = budget.get("status") or {}, budget["metadata"]["name"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _not_allowed(f"The disruption budget {name} is still being processed by the server.")
    if status.get("disruptionsAllowed", 0) <= 0:
        wanted, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        raise _not_allowed(f"The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently")


def _not_allowed(why: str) -> StatusError:
    return too_many_requests(WOULD_VIOLATE, {"reason": "DisruptionBudget", "message": why})


def _counted(budget: Json, errand: RequestInfo) -> Json:
    status = budget["status"]
    disrupted = {**(status.get("disruptedPods") or {}), errand.name: timestamp(int(errand.now))}
    allowed = status["disruptionsAllowed"] - 1
    return {**budget, "status": {**status, "disruptionsAllowed": allowed, "disruptedPods": disrupted}}


def _delete_evicted(store: Store, deleter: Deleter, errand: RequestInfo, options: DeleteOptions) -> None:
    pod = found(errand).value
    if not errand.dry_run and pod["metadata"].get("deletionTimestamp") is None:
        reason = {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
        condition = {"type": "DisruptionTarget", "status": "True", **reason}
        status = with_condition(pod.get("status") or {}, condition, errand.now)
        store.put(errand.served.collection, errand.namespace, errand.name, {**pod, "status": status})
    deleter.delete(structs.replace(errand, subresource=""), options)
