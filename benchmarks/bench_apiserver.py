"""How fast the small Kubernetes writes, beside merely decoding and encoding the same objects in the same run.

Pods first, then objects of a kind that a definition adds, with rules in CEL and webhooks, and what it takes to see and
decode each change.

Run: python benchmarks/bench_apiserver.py
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from headgate.api.decode import READABLE
from headgate.api.rereading import Rereading
from headgate.apiserver import ADMISSION, INITIAL_OBJECTS, RESOURCE_TYPES, ApiServer, Json, Request, ResourceType
from headgate.model.events import Observed
from headgate.model.settings import Settings
from headgate.simulator.cluster import installed_objects, lookup_in, our_webhooks
from headgate.simulator.observing import Feed, ObjectChange

PODS = 10_000
WORKLOADS = 3_000
QUEUES = 30
WATCHERS = 3
DRAIN_EVERY = 100
POD: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"labels": {"app": "train", "queue": "main"}, "annotations": {"headgate.dev/run-seconds": "60"}},
    "spec": {
        "schedulerName": "headgate",
        "schedulingGates": [{"name": "example.com/gate"}],
        "containers": [
            {
                "name": "main",
                "image": "registry.example/train:1",
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                "env": [{"name": f"VARIABLE_{i}", "value": "some value"} for i in range(10)],
            }
        ],
    },
}


class NoRules:
    """Rules that ask nothing, to see what the generic server costs."""

    def prepare_create(self, new: Json) -> Json:
        return new

    def defaulted(self, new: Json) -> Json:
        return new

    def prepare_update(self, new: Json, old: Json) -> Json:
        return new

    def prepare_status(self, new: Json, old: Json) -> Json:
        return {**old, "status": new.get("status") or {}}

    def validate_create(self, new: Json) -> Sequence[object]:
        return ()

    def validate_update(self, new: Json, old: Json) -> Sequence[object]:
        return ()

    def validate_status(self, new: Json, old: Json) -> Sequence[object]:
        return ()


def without_rules(kind: ResourceType) -> ResourceType:
    return msgspec.structs.replace(kind, rules=NoRules())


def requests() -> dict[str, list[Request]]:
    """The four writes in the life of a waiting pod, for every pod."""
    base = "/api/v1/namespaces/default/pods"
    condition = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": None}
    status = msgspec.json.encode({"status": {"phase": "Running", "conditions": [condition]}})
    gates = msgspec.json.encode({"spec": {"schedulingGates": None}})
    names = [f"pod-{(number * 7919) % PODS:05}" for number in range(PODS)]
    merge = "application/merge-patch+json"
    return {
        "create": [Request("POST", base, {}, body(name)) for name in names],
        "remove gate": [Request("PATCH", f"{base}/{name}", {}, gates, merge) for name in names],
        "bind": [
            Request("POST", f"{base}/{name}/binding", {}, b'{"target":{"kind":"Node","name":"n"}}') for name in names
        ],
        "patch status": [Request("PATCH", f"{base}/{name}/status", {}, status, merge) for name in names],
    }


def body(name: str) -> bytes:
    return msgspec.json.encode({**POD, "metadata": {**POD["metadata"], "name": name}})


def timed(work: Callable[[], object]) -> float:
    gc.collect()
    gc.freeze()
    begun = time.process_time()
    work()
    return time.process_time() - begun


def bare(bodies: list[bytes]) -> None:
    for one in bodies:
        msgspec.json.encode(msgspec.json.decode(one))


def write_all(server: ApiServer, todo: list[Request]) -> None:
    watches = [server.watch("/api/v1/pods", {"resourceVersion": version(server)}) for _ in range(WATCHERS)]
    events = 0
    for number, request in enumerate(todo, 1):
        response = server.handle(request, 1_000.0)
        assert response.code in (200, 201), response.value
        if number % DRAIN_EVERY == 0:
            events += sum(len(watch.drain()) for watch in watches)
    assert events == len(todo) * WATCHERS


def version(server: ApiServer) -> str:
    listed = server.handle(Request("GET", "/api/v1/nodes"), 0.0)
    return str(listed.value["metadata"]["resourceVersion"])


def report(title: str, server: ApiServer, floor: float) -> None:
    print(f"{title}: {PODS} pods, {WATCHERS} watchers")
    total = 0.0
    for name, todo in requests().items():
        taken = timed(partial(write_all, server, todo))
        total += taken
        micros = taken / len(todo) * 1e6
        print(f"  {name:14} {len(todo) / taken:9,.0f} writes/s {micros:7.1f} us each {micros / floor:6.1f} x bare")
    print(f"  {'all writes':14} {4 * PODS / total:9,.0f} writes/s in {total:.2f} s")


def queue_server(reading: Rereading) -> ApiServer:
    """A server with the kinds and webhooks every simulated cluster has."""
    webhooks = our_webhooks(Settings(), lookup_in(lambda: server), reading)
    objects = (*INITIAL_OBJECTS, *installed_objects(Settings()))
    server = ApiServer(admission=(*ADMISSION, webhooks), objects=objects)
    return server


QUEUE_API = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default"


def new_workload(number: int) -> Request:
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": str(1 + number % 3)}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    spec = {"queueName": f"queue-{number % QUEUES}", "podSets": [{"name": "main", "count": 1, "template": template}]}
    identity = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": f"work-{number:05}"}}
    return Request("POST", f"{QUEUE_API}/workloads", {}, msgspec.json.encode({**identity, "spec": spec}))


def condition(type_: str, status: str, message: str) -> Json:
    at = "2026-01-01T00:00:00Z"
    return {"type": type_, "status": status, "reason": type_, "message": message, "lastTransitionTime": at}


def statuses(number: int) -> dict[str, Json]:
    """What becomes of a workload, in order."""
    usage = {"name": "main", "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "1"}, "count": 1}
    reserved = condition("QuotaReserved", "True", f"after {number} s")
    admitted = condition("Admitted", "True", f"at {number} s")
    return {
        "refuse": {"conditions": [condition("QuotaReserved", "False", f"{number} cpu more needed")]},
        "admit": {
            "admission": {"clusterQueue": f"queue-{number % QUEUES}", "podSetAssignments": [usage]},
            "conditions": [reserved, admitted],
        },
        "finish": {"conditions": [reserved, admitted, condition("Finished", "True", "done")]},
    }


def status_patch(step: str, number: int, change: ObjectChange) -> Request:
    assert isinstance(change, Observed)
    found = change.object
    precondition = {"uid": found.uid, "resourceVersion": found.version}
    body = msgspec.json.encode({"metadata": precondition, "status": statuses(number)[step]})
    path = f"{QUEUE_API}/workloads/{found.key.name}/status"
    return Request("PATCH", path, {}, body, "application/merge-patch+json")


def report_workloads(floor: float) -> None:
    reading = Rereading()
    server = queue_server(reading)
    feed = Feed(server, READABLE, reading.read)
    feed.poll()
    print(f"queued workloads, with rules in CEL and webhooks: {WORKLOADS}, each change seen and decoded")
    seen = report_step("create", server, feed, [new_workload(number) for number in range(WORKLOADS)], floor)
    for step in statuses(0):
        todo = [status_patch(step, number, change) for number, change in enumerate(seen)]
        seen = report_step(step, server, feed, todo, floor)


def report_step(name: str, server: ApiServer, feed: Feed, todo: list[Request], floor: float) -> list[ObjectChange]:
    seen: list[ObjectChange] = []
    writing = timed(lambda: all(server.handle(request, 1_000.0).code in (200, 201) for request in todo))
    seeing = timed(lambda: seen.extend(feed.poll()))
    assert len(seen) == len(todo)
    write, see = writing / len(todo) * 1e6, seeing / len(todo) * 1e6
    print(f"  {name:14} {write:7.1f} us each {write / floor:6.1f} x bare; seen in {see:5.1f} us")
    return seen


def main() -> None:
    bodies = [body(f"pod-{number:05}") for number in range(PODS)]
    floor = timed(lambda: bare(bodies)) / PODS * 1e6
    print(f"bare decode and encode of a new pod ({len(bodies[0])} bytes): {floor:.1f} us")
    report("generic server alone", ApiServer(types=tuple(map(without_rules, RESOURCE_TYPES)), admission=()), floor)
    report("with the rules of the kinds", ApiServer(), floor)
    report("with managers of fields too", ApiServer(tracks_fields=True), floor)
    report_workloads(floor)


if __name__ == "__main__":
    main()
