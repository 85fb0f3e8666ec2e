"""Exchanges about creating pods: each is named by a sentence."""

from __future__ import annotations

import json
from typing import Any

from exchanges import CLASSES, PODS, Step, container, create, get, pod, priority_class, requesting, with_metadata
from wire import JSON_PATCH, MERGE_PATCH

ODD_BYTES = b"\xff \xe2\x82 \xc3("
"""No text in UTF-8: a byte that is never used, a character that is cut short, one that goes on otherwise."""


def affinity(*expressions: Any) -> dict[str, Any]:
    terms = [{"matchExpressions": list(expressions)}] if expressions else []
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


ODD = "ODD"
ADD = {"op": "add", "value": ODD}


def with_odd_bytes(body: Any) -> bytes:
    return json.dumps(body).encode().replace(ODD.encode(), ODD_BYTES)


EXCHANGES: dict[str, list[Step]] = {
    "a plain pod": [create(pod()), get(f"{PODS}/it")],
    "a pod that exists already": [create(pod()), create(pod())],
    "a pod without containers": [create(pod(containers=[]))],
    "a pod without a spec": [create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "it"}})],
    "a container without a name": [create(pod(containers=[{"image": "i"}]))],
    "a container with a bad name": [create(pod(containers=[container(name="Not_Good")]))],
    "a container without an image": [create(pod(containers=[{"name": "main"}]))],
    "two containers of one name": [create(pod(containers=[container(), container()]))],
    "an init container with the name of a container": [create(pod(initContainers=[container()]))],
    "a pod name with capitals": [create(pod("It"))],
    "a pod name that is too long": [create(pod("a" * 254))],
    "a pod without a name": [create(with_metadata(pod(), name=""))],
    "a pod with a generated name that is bad": [create({**pod(), "metadata": {"generateName": "Bad_"}})],
    "a pod in another namespace than the path": [create(with_metadata(pod(), namespace="elsewhere"))],
    "a pod in a namespace that does not exist": [create(pod(), "/api/v1/namespaces/NS-none/pods")],
    "a pod that does not exist": [get(f"{PODS}/it")],
    "a label key that is bad": [create(with_metadata(pod(), labels={"not good": "x"}))],
    "a label value that is bad": [create(with_metadata(pod(), labels={"good": "not good"}))],
    "a label value that is too long": [create(with_metadata(pod(), labels={"good": "x" * 64}))],
    "an annotation key that is bad": [create(with_metadata(pod(), annotations={"a/b/c": "x"}))],
    "a negative request": [create(requesting({"cpu": "-1"}))],
    "a request above its limit": [create(requesting({"cpu": "2"}, {"cpu": "1"}))],
    "a limit alone becomes the request": [create(pod(containers=[container(resources={"limits": {"cpu": "1"}})]))],
    "a request that is no quantity": [create(requesting({"cpu": "one"}))],
    "a request of a millionth": [create(requesting({"cpu": "1u"}))],
    "a request that is a number": [create(requesting({"cpu": 2}))],
    "a request of an unknown native resource": [create(requesting({"speed": "1"}))],
    "a fraction of a device": [create(requesting({"example.com/gpu": "1500m"}, {"example.com/gpu": "1500m"}))],
    "a device with no limit": [create(requesting({"example.com/gpu": "1"}))],
    "a device with another limit": [create(requesting({"example.com/gpu": "1"}, {"example.com/gpu": "2"}))],
    "huge pages without cpu or memory": [create(requesting({"hugepages-2Mi": "2Mi"}, {"hugepages-2Mi": "2Mi"}))],
    "a scheduling gate": [create(pod(schedulingGates=[{"name": "example.com/wait"}])), get(f"{PODS}/it")],
    "a scheduling gate with a bad name": [create(pod(schedulingGates=[{"name": "not good"}]))],
    "a scheduling gate without a name": [create(pod(schedulingGates=[{"name": ""}]))],
    "a scheduling gate twice": [create(pod(schedulingGates=[{"name": "a.b/c"}, {"name": "a.b/c"}]))],
    "a scheduling gate and a node name": [create(pod(schedulingGates=[{"name": "a.b/c"}], nodeName="n"))],
    "a priority without a class": [create(pod(priority=5))],
    "a priority class that does not exist": [create(pod(priorityClassName="NS-none"))],
    "a priority class gives its value": [
        create(priority_class("NS-high", 1000), CLASSES),
        create(pod(priorityClassName="NS-high")),
        create(pod("other", priorityClassName="NS-high", priority=7)),
    ],
    "a priority class that never preempts": [
        create(priority_class("NS-calm", 10, preemptionPolicy="Never"), CLASSES),
        create(pod(priorityClassName="NS-calm")),
        create(pod("other", priorityClassName="NS-calm", preemptionPolicy="PreemptLowerPriority")),
    ],
    "a built-in priority class": [create(pod(priorityClassName="system-node-critical"))],
    "an unknown preemption policy": [create(pod(preemptionPolicy="Sometimes"))],
    "an unknown restart policy": [create(pod(restartPolicy="Sometimes"))],
    "a negative grace period": [create(pod(terminationGracePeriodSeconds=-1))],
    "a deadline of nothing": [create(pod(activeDeadlineSeconds=0))],
    "a bad scheduler name": [create(pod(schedulerName="Not Good"))],
    "a bad node name": [create(pod(nodeName="Not_Good"))],
    "a bad node selector": [create(pod(nodeSelector={"zone": "not good"}))],
    "a toleration of everything": [create(pod(tolerations=[{"operator": "Exists"}]))],
    "a toleration with no key and no operator": [create(pod(tolerations=[{"value": "x"}]))],
    "a toleration with an unknown operator": [create(pod(tolerations=[{"key": "k", "operator": "Like"}]))],
    "a toleration that exists with a value": [
        create(pod(tolerations=[{"key": "k", "operator": "Exists", "value": "v"}]))
    ],
    "a toleration with an unknown effect": [create(pod(tolerations=[{"key": "k", "effect": "Never"}]))],
    "a toleration for some seconds without NoExecute": [
        create(pod(tolerations=[{"key": "k", "effect": "NoSchedule", "tolerationSeconds": 5}]))
    ],
    "node affinity without terms": [create(pod(affinity=affinity()))],
    "node affinity with an unknown operator": [
        create(pod(affinity=affinity({"key": "zone", "operator": "Like", "values": ["a"]})))
    ],
    "node affinity In without values": [create(pod(affinity=affinity({"key": "zone", "operator": "In"})))],
    "node affinity Exists with values": [
        create(pod(affinity=affinity({"key": "zone", "operator": "Exists", "values": ["a"]})))
    ],
    "node affinity Gt with two values": [
        create(pod(affinity=affinity({"key": "zone", "operator": "Gt", "values": ["1", "2"]})))
    ],
    "node affinity Gt with a word": [
        create(pod(affinity=affinity({"key": "zone", "operator": "Gt", "values": ["one"]})))
    ],
    "node affinity with a bad key": [create(pod(affinity=affinity({"key": "not good", "operator": "Exists"})))],
    "a status of one's own at creation": [create({**pod(), "status": {"phase": "Running"}})],
    "a uid of one's own at creation": [create(with_metadata(pod(), uid="mine"))],
    "a version of one's own at creation": [create(with_metadata(pod(), resourceVersion="5"))],
    "a manifest of another kind": [create({**pod(), "kind": "Node"})],
    "a manifest of another group": [create({**pod(), "apiVersion": "batch/v1"})],
    "a manifest of an unknown version": [create({**pod(), "apiVersion": "v9"})],
    "a manifest without kind and version": [create({"metadata": {"name": "it"}, "spec": pod()["spec"]})],
    "a body that is no JSON": [create(b'{"kind": "Pod",')],
    "a body that is a list": [create([1])],
    "a body that is no UTF-8": [create(with_odd_bytes(with_metadata(pod(), annotations={"a": ODD})))],
    "patches that are no UTF-8": [
        create(with_metadata(pod(), annotations={"a": "b"})),
        Step("PATCH", f"{PODS}/it", with_odd_bytes({"metadata": {"annotations": {"b": ODD}}}), MERGE_PATCH),
        Step("PATCH", f"{PODS}/it", with_odd_bytes([{**ADD, "path": "/metadata/annotations/c"}]), JSON_PATCH),
        Step("PATCH", f"{PODS}/it", with_odd_bytes({"metadata": {"labels": {"b": ODD}}}), MERGE_PATCH),
    ],
    "an empty body": [create(b"")],
    "a word where a number belongs": [create(pod(terminationGracePeriodSeconds="soon"))],
    "a word where a list belongs": [create(pod(containers="none"))],
    "a word where a yes or no belongs": [create(pod(hostNetwork="yes"))],
    "several things wrong at once": [create(pod(containers=[{"name": "X"}], restartPolicy="Sometimes"))],
    "an unknown field is dropped": [create(pod(surprise=1))],
    "pod-level resources": [create(pod(resources={"requests": {"cpu": "1"}}))],
    "pod-level resources below those of the containers": [
        create(
            {
                **requesting({"cpu": "2"}),
                "spec": {**requesting({"cpu": "2"})["spec"], "resources": {"requests": {"cpu": "1"}}},
            }
        )
    ],
    "an unknown path": [get("/api/v1/namespaces/NS/surprises")],
    "an unknown subresource": [create(pod()), get(f"{PODS}/it/surprise")],
    "a method that is not allowed": [Step("POST", f"{PODS}/it", pod())],
    "a label selector that is bad": [get(f"{PODS}?labelSelector=a%20in%20b")],
    "a field selector that is bad": [get(f"{PODS}?fieldSelector=a")],
    "label selectors that are bad": [
        get(f"{PODS}?labelSelector={text}")
        for text in ("a%20b", "a%3Db,", ",a", "!a%3Db", "a%3E1x", "-a", "a%3Db/c", "a%20in%20(/,-)", "a%20in%20(x,")
    ],
    "field selectors that are bad": [
        get(f"{PODS}?fieldSelector={text}") for text in ("a%3Db%3Dc", "a%3D%5Cx", "a%3D%5C", "%3Db", "x,a", "%3D")
    ],
    "a field selector on an unknown field": [get(f"{PODS}?fieldSelector=spec.surprise%3D1")],
    "a limit that is bad": [get(f"{PODS}?limit=few")],
    "a continuation that is bad": [get(f"{PODS}?continue=nowhere&limit=1")],
    "a version that is bad": [get(f"{PODS}?resourceVersion=new")],
}
