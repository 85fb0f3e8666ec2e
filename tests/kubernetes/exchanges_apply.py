"""Exchanges about server-side apply and the managers of fields."""

from __future__ import annotations

from typing import Any

from exchanges import JOBS, PODS, Manifest, Step, container, create, get, job, json_patch, merge, pod, strategic

MAPS = "/api/v1/namespaces/NS/configmaps"
MAP = f"{MAPS}/it"
POD = f"{PODS}/it"


def config_map(data: Any = None, **metadata: Any) -> Manifest:
    found: Manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "it", **metadata}}
    return found if data is None else {**found, "data": data}


def apply(manifest: Any, path: str, manager: str = "one", *, force: bool = False, query: str = "") -> Step:
    asked = f"fieldManager={manager}{'&force=true' if force else ''}{query}"
    return Step("PATCH", f"{path}?{asked}", manifest, "application/apply-patch+yaml")


def applied_pod(**spec: Any) -> Manifest:
    return pod(**spec)


EXCHANGES: dict[str, list[Step]] = {
    "a map is created by apply": [apply(config_map({"a": "1"}), MAP), get(MAP)],
    "a map is applied twice": [apply(config_map({"a": "1"}), MAP), apply(config_map({"a": "1"}), MAP)],
    "a value is applied anew": [apply(config_map({"a": "1"}), MAP), apply(config_map({"a": "2"}), MAP)],
    "a value is not applied any more": [
        apply(config_map({"a": "1", "b": "2"}), MAP),
        apply(config_map({"a": "1"}), MAP),
    ],
    "nothing is applied any more": [apply(config_map({"a": "1"}), MAP), apply(config_map(), MAP)],
    "two managers apply different values": [
        apply(config_map({"a": "1"}), MAP),
        apply(config_map({"b": "2"}), MAP, "two"),
        apply(config_map(), MAP),
    ],
    "two managers apply the same value": [
        apply(config_map({"a": "1"}), MAP),
        apply(config_map({"a": "1"}), MAP, "two"),
        apply(config_map(), MAP),
        apply(config_map(), MAP, "two"),
    ],
    "two managers conflict": [
        apply(config_map({"a": "1"}), MAP),
        apply(config_map({"a": "2"}), MAP, "two"),
        get(MAP),
    ],
    "two managers conflict in several fields": [
        apply(config_map({"a": "1", "b": "1", "c": "1"}, labels={"x": "1"}), MAP),
        apply(config_map({"a": "2", "b": "2"}, labels={"x": "2"}), MAP, "two"),
    ],
    "a conflict is forced": [
        apply(config_map({"a": "1"}), MAP),
        apply(config_map({"a": "2"}), MAP, "two", force=True),
        apply(config_map({"a": "1"}), MAP),
    ],
    "an apply conflicts with a patch": [
        apply(config_map({"a": "1"}), MAP),
        merge({"data": {"a": "2"}}, f"{MAP}?fieldManager=three"),
        apply(config_map({"a": "1"}), MAP),
        apply(config_map({"a": "1"}), MAP, force=True),
    ],
    "an apply conflicts with two others": [
        apply(config_map({"a": "1"}), MAP),
        merge({"data": {"b": "2"}}, f"{MAP}?fieldManager=three"),
        merge({"data": {"c": "2"}}, f"{MAP}?fieldManager=four"),
        apply(config_map({"a": "1", "b": "1"}), MAP, force=True),
        merge({"data": {"a": "3"}}, f"{MAP}?fieldManager=three"),
    ],
    "an object of before the first apply": [
        create(config_map({"a": "1"}), MAPS),
        merge({"metadata": {"managedFields": []}}, MAP),
        merge({"data": {"b": "1"}}, MAP),
        apply(config_map({"a": "2"}), MAP),
        apply(config_map({"a": "2"}), MAP, force=True),
    ],
    "managers are reset by one empty entry": [
        create(config_map({"a": "1"}), MAPS),
        merge({"metadata": {"managedFields": [{}]}}, MAP),
    ],
    "managers are replaced by others": [
        create(config_map({"a": "1"}), MAPS),
        merge(
            {
                "metadata": {
                    "managedFields": [
                        {
                            "manager": "made-up",
                            "operation": "Update",
                            "apiVersion": "v1",
                            "fieldsType": "FieldsV1",
                            "fieldsV1": {"f:data": {"f:a": {}}},
                        }
                    ]
                }
            },
            MAP,
        ),
    ],
    "managers that cannot be read are ignored": [
        create(config_map({"a": "1"}), MAPS),
        merge({"metadata": {"managedFields": [{"manager": "x", "operation": "Bend"}]}}, MAP),
    ],
    "a manager by the query": [create(config_map({"a": "1"}), f"{MAPS}?fieldManager=somebody"), get(MAP)],
    "a manager whose name is too long": [create(config_map({"a": "1"}), f"{MAPS}?fieldManager={'x' * 129}")],
    "an update takes fields": [
        apply(config_map({"a": "1", "b": "1"}), MAP),
        Step("PUT", f"{MAP}?fieldManager=two", config_map({"a": "2"})),
    ],
    "an update changes nothing": [
        apply(config_map({"a": "1"}), MAP),
        Step("PUT", f"{MAP}?fieldManager=two", config_map({"a": "1"})),
    ],
    "a label is taken away by a patch": [
        create(config_map({"a": "1"}, labels={"x": "1", "y": "1"}), MAPS),
        merge({"metadata": {"labels": {"x": None}}}, f"{MAP}?fieldManager=two"),
        merge({"metadata": {"labels": None}}, f"{MAP}?fieldManager=two"),
    ],
    "an apply without a manager": [Step("PATCH", MAP, config_map(), "application/apply-patch+yaml")],
    "a patch that is forced": [create(config_map(), MAPS), merge({"data": {"a": "1"}}, f"{MAP}?force=true")],
    "an apply of another kind": [apply({**config_map(), "kind": "Secret"}, MAP)],
    "an apply of no kind": [apply({"metadata": {"name": "it"}}, MAP)],
    "an apply of another version": [apply({**config_map(), "apiVersion": "v2"}, MAP)],
    "an apply of another name": [apply(config_map({"a": "1"}, name="other"), MAP)],
    "an apply without a name": [apply({"apiVersion": "v1", "kind": "ConfigMap"}, MAP)],
    "an apply without a name to what is there": [
        apply(config_map({"a": "1"}), MAP),
        apply({"apiVersion": "v1", "kind": "ConfigMap", "data": {"b": "2"}}, MAP, "two"),
    ],
    "an apply to another namespace": [apply(config_map({"a": "1"}, namespace="other"), MAP)],
    "an apply to a namespace that is not there": [
        apply(config_map({"a": "1"}), "/api/v1/namespaces/nowhere/configmaps/it")
    ],
    "an apply with managers": [apply(config_map({"a": "1"}, managedFields=[]), MAP)],
    "an apply of an unknown field": [apply({**config_map(), "surprise": 1}, MAP)],
    "an apply of an unknown field below": [apply(applied_pod(surprise=1), POD)],
    "an apply of a number as text": [apply(config_map({"a": 1}), MAP)],
    "an apply of text as a number": [apply(applied_pod(priority="high"), POD)],
    "an apply of text as a list": [apply(applied_pod(containers="none"), POD)],
    "an apply of a list as an object": [apply(config_map([]), MAP)],
    "an apply of a uid to nothing": [apply(config_map({"a": "1"}, uid="abc"), MAP)],
    "an apply of a uid of another": [
        apply(config_map({"a": "1"}), MAP),
        apply(config_map({"a": "1"}, uid="abc"), MAP),
    ],
    "an apply of an older version": [
        apply(config_map({"a": "1"}), MAP),
        apply(config_map({"a": "2"}, resourceVersion="1"), MAP),
    ],
    "an apply of this version": [
        apply(config_map({"a": "1"}), MAP),
        apply(config_map({"a": "2"}, resourceVersion="VERSION"), MAP),
    ],
    "an apply of a bad label": [apply(config_map({"a": "1"}, labels={"x": "not good"}), MAP)],
    "an apply that is dry": [apply(config_map({"a": "1"}), MAP, query="&dryRun=All"), get(MAP)],
    "an apply that is dry to what is there": [
        apply(config_map({"a": "1"}), MAP),
        apply(config_map({"b": "1"}), MAP, query="&dryRun=All"),
        get(MAP),
    ],
    "a pod is created by apply": [apply(pod(), POD)],
    "an image is applied by another manager": [
        apply(pod(), POD),
        apply(pod(containers=[{"name": "main", "image": "registry.example/new"}]), POD, "two"),
    ],
    "an image is taken over": [
        apply(pod(), POD),
        apply(pod(containers=[{"name": "main", "image": "registry.example/new"}]), POD, "two", force=True),
        apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "it"}}, POD, "two"),
    ],
    "two containers with one name are applied": [apply(pod(containers=[container(), container()]), POD)],
    "a container without a name is applied": [apply(pod(containers=[{"image": "x"}]), POD)],
    "labels of two managers": [
        apply(pod() | {"metadata": {"name": "it", "labels": {"a": "1"}}}, POD),
        apply(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "it", "labels": {"b": "1"}}},
            POD,
            "two",
        ),
        apply(pod(), POD),
    ],
    "tolerations are one value": [
        apply(pod(tolerations=[{"key": "a", "operator": "Exists"}]), POD),
        apply(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "it"},
                "spec": {"tolerations": [{"key": "b", "operator": "Exists"}]},
            },
            POD,
            "two",
        ),
    ],
    "ports are told apart by number and protocol": [
        apply(pod(containers=[container(ports=[{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}])]), POD)
    ],
    "a gate is applied away": [
        apply(pod(schedulingGates=[{"name": "example.com/a"}, {"name": "example.com/b"}]), POD),
        apply(pod(schedulingGates=[{"name": "example.com/b"}]), POD),
        apply(pod(), POD),
    ],
    "a gate of another manager stays": [
        apply(pod(schedulingGates=[{"name": "example.com/a"}]), POD),
        json_patch({"op": "remove", "path": "/spec/schedulingGates/0"}),
        apply(pod(schedulingGates=[{"name": "example.com/a"}]), POD),
    ],
    "a status is applied": [
        create(pod()),
        apply(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "it"},
                "status": {"conditions": [{"type": "Ready", "status": "False"}], "message": "m"},
            },
            f"{POD}/status",
        ),
        apply(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "it"}, "status": {"message": "m"}},
            f"{POD}/status",
        ),
        apply(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "it"}, "status": {"message": "n"}},
            f"{POD}/status",
            "two",
        ),
    ],
    "a status of nothing is applied": [
        apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "it"}, "status": {}}, f"{POD}/status")
    ],
    "a status that is applied with the spec is ignored": [apply({**pod(), "status": {"message": "m"}}, POD)],
    "a spec that is applied with the status is ignored": [
        create(pod()),
        apply({**pod(), "spec": {"priority": 1}, "status": {"message": "m"}}, f"{POD}/status"),
    ],
    "a condition is patched by its manager": [
        create(pod()),
        strategic(
            {"status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}},
            f"{POD}/status?fieldManager=scheduler",
        ),
        strategic(
            {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, f"{POD}/status?fieldManager=kubelet"
        ),
        get(POD),
    ],
    "a job is created by apply": [apply(job(), f"{JOBS}/it")],
    "a job is suspended by another manager": [
        apply(job(suspend=True), f"{JOBS}/it"),
        merge({"spec": {"suspend": False}}, f"{JOBS}/it?fieldManager=two"),
        apply(job(suspend=True), f"{JOBS}/it"),
        apply(job(), f"{JOBS}/it"),
    ],
    "a job and its parallelism": [
        create(job(), f"{JOBS}?fieldManager=maker"),
        apply(
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "it"}, "spec": {"parallelism": 3}},
            f"{JOBS}/it",
        ),
        apply(
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "it"}, "spec": {"parallelism": 3}},
            f"{JOBS}/it",
            force=True,
        ),
    ],
    "a namespace is applied": [
        apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "NS-more", "labels": {"a": "b"}}},
            "/api/v1/namespaces/NS-more",
        )
    ],
    "a finalizer of two managers": [
        apply(config_map({"a": "1"}, finalizers=["example.com/a"]), MAP),
        apply(config_map(finalizers=["example.com/b"]), MAP, "two"),
        apply(config_map({"a": "1"}), MAP),
        merge({"metadata": {"finalizers": None}}, MAP),
    ],
    "owners are applied": [
        apply(
            config_map(ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u-1"}]),
            MAP,
        ),
    ],
    "eleven managers by update": [
        create(config_map({"a": "0"}), f"{MAPS}?fieldManager=m00"),
        *(merge({"data": {f"k{n:02}": "1"}}, f"{MAP}?fieldManager=m{n:02}") for n in range(1, 13)),
    ],
    "kubectl takes over what client-side apply has set": [
        create(
            config_map(
                {"a": "1"},
                annotations={
                    "kubectl.kubernetes.io/last-applied-configuration": '{"apiVersion":"v1","data":{"a":"1"},'
                    '"kind":"ConfigMap","metadata":{"name":"it"}}\n'
                },
            ),
            f"{MAPS}?fieldManager=kubectl-client-side-apply",
        ),
        apply(config_map({"a": "2"}), MAP, "kubectl"),
    ],
    "kubectl does not take over what others have set": [
        create(config_map({"a": "1"}), f"{MAPS}?fieldManager=kubectl-client-side-apply"),
        apply(config_map({"a": "2"}), MAP, "kubectl"),
    ],
}
