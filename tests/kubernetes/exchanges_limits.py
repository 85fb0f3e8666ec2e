"""Exchanges about limit ranges, runtime classes, and what pods get of them."""

from __future__ import annotations

from typing import Any

from exchanges import PODS, Step, container, create, get, merge, pod, requesting

RANGES, RUNTIMES = "/api/v1/namespaces/NS/limitranges", "/apis/node.k8s.io/v1/runtimeclasses"
THE_RUNTIME = f"{RUNTIMES}/NS-sandbox"


def limits(*items: Any) -> Step:
    spec = {"limits": list(items)}
    return create({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "it"}, "spec": spec}, RANGES)


def of_container(**bounds: Any) -> dict[str, Any]:
    return {"type": "Container", **bounds}


def of_pod(**bounds: Any) -> dict[str, Any]:
    return {"type": "Pod", **bounds}


def runtime(**fields: Any) -> Step:
    kind = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "NS-sandbox"}}
    return create({**kind, "handler": "runsc", **fields}, RUNTIMES)


SANDBOX = runtime(overhead={"podFixed": {"cpu": "0.25"}})

EXCHANGES: dict[str, list[Step]] = {
    "a limit range that says little": [limits(of_container(max={"cpu": 2}, min={"memory": "1Mi"}))],
    "a limit range that says all": [
        limits(
            of_container(
                max={"cpu": "4"},
                min={"cpu": "1"},
                default={"cpu": "3"},
                defaultRequest={"cpu": "2"},
                maxLimitRequestRatio={"cpu": "4"},
            )
        )
    ],
    "a limit range of an unknown type": [limits({"type": "Bag"})],
    "a limit range with one type twice": [limits(of_pod(), of_pod())],
    "a limit range whose least is above its most": [limits(of_pod(min={"cpu": "2"}, max={"cpu": "1"}))],
    "a limit range whose default is above its most": [limits(of_container(default={"cpu": "2"}, max={"cpu": "1"}))],
    "a limit range whose default request is below its least": [
        limits(of_container(defaultRequest={"cpu": "1"}, min={"cpu": "2"}))
    ],
    "a limit range whose default request is above its default": [
        limits(of_container(defaultRequest={"cpu": "2"}, default={"cpu": "1"}))
    ],
    "a limit range with a default for pods": [limits(of_pod(default={"cpu": "1"}))],
    "a limit range with a ratio below one": [limits(of_pod(maxLimitRequestRatio={"cpu": "0.5"}))],
    "a limit range of a resource that is none": [limits(of_container(max={"bags": "1"}))],
    "a pod completed by a limit range": [
        limits(of_container(default={"cpu": "2", "memory": "2Gi"}, defaultRequest={"cpu": "1"})),
        create(pod(containers=[container(resources={"requests": {"memory": "1Gi"}})])),
        get(f"{PODS}/it"),
    ],
    "a pod with an init container completed by a limit range": [
        limits(of_container(defaultRequest={"cpu": "1"})),
        create(pod(initContainers=[container() | {"name": "first"}])),
    ],
    "a pod with a limit above the most": [
        limits(of_container(max={"cpu": "2"})),
        create(requesting({"cpu": "1"}, {"cpu": "3"})),
    ],
    "a pod with a request below the least": [limits(of_container(min={"cpu": "2"})), create(requesting({"cpu": "1"}))],
    "a pod without a request where there must be one": [limits(of_pod(min={"cpu": "2"})), create(pod())],
    "a pod without a limit where there must be one": [limits(of_pod(max={"cpu": "2"})), create(pod())],
    "a pod with a limit too far from its request": [
        limits(of_container(maxLimitRequestRatio={"cpu": "2"})),
        create(requesting({"cpu": "1"}, {"cpu": "3"})),
    ],
    "a runtime class and a pod of it": [SANDBOX, create(pod(runtimeClassName="NS-sandbox")), get(f"{PODS}/it")],
    "a runtime class of another handler": [SANDBOX, merge({"handler": "runc"}, THE_RUNTIME)],
    "a runtime class with a bad handler": [runtime(handler="Runc")],
    "a runtime class without a handler": [runtime(handler="")],
    "a pod of a runtime class that is not there": [create(pod(runtimeClassName="none"))],
    "a pod with another overhead than its class": [
        SANDBOX,
        create(pod(runtimeClassName="NS-sandbox", overhead={"cpu": "1"})),
    ],
    "a pod with an overhead and no class": [create(pod(overhead={"cpu": "1"}))],
}
