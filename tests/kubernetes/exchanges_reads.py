"""Exchanges about lists, selectors, pages, dry runs, unknown fields and deletions of many."""

from __future__ import annotations

from typing import Any

from exchanges import (
    JOBS,
    PODS,
    Manifest,
    Step,
    create,
    delete,
    get,
    job,
    json_patch,
    merge,
    pod,
    strategic,
    with_metadata,
)

MAPS = "/api/v1/namespaces/NS/configmaps"
SECRETS = "/api/v1/namespaces/NS/secrets"


def config_map(name: str = "it", data: Any = None, **metadata: Any) -> Manifest:
    found: Manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}
    return found if data is None else {**found, "data": data}


def labelled(name: str, **labels: str) -> Step:
    return create(config_map(name, labels=labels), MAPS)


THREE = [labelled("a", tier="front", app="x"), labelled("b", tier="back", app="x"), labelled("c")]
THREE_PODS = [create(with_metadata(pod(name), labels={"n": name})) for name in ("p1", "p2", "p3")]


def listing(*queries: str, path: str = MAPS) -> list[Step]:
    return [get(f"{path}?{query}") for query in queries]


EXCHANGES: dict[str, list[Step]] = {
    "maps are listed": [*THREE, get(MAPS)],
    "maps by equality": [*THREE, *listing("labelSelector=tier%3Dfront", "labelSelector=tier%3D%3Dback")],
    "maps by inequality": [*THREE, *listing("labelSelector=tier%21%3Dfront")],
    "maps by presence": [*THREE, *listing("labelSelector=tier", "labelSelector=%21tier")],
    "maps by sets": [
        *THREE,
        *listing("labelSelector=tier+in+%28front%2Cback%29", "labelSelector=tier+notin+%28front%29"),
    ],
    "maps by several": [*THREE, *listing("labelSelector=app%3Dx%2Ctier%3Dback")],
    "maps by nothing that is": [*THREE, *listing("labelSelector=tier%3Dnone")],
    "a label selector that is none": [*THREE, *listing("labelSelector=%3D%3D")],
    "a label selector with a bad key": [*THREE, *listing("labelSelector=-bad%3Dx")],
    "maps by name": [*THREE, *listing("fieldSelector=metadata.name%3Db", "fieldSelector=metadata.name%21%3Db")],
    "maps by namespace": [*THREE, *listing("fieldSelector=metadata.namespace%3DNS")],
    "maps by a field that is not selectable": [*THREE, *listing("fieldSelector=data.k%3Dv")],
    "a field selector that is none": [*THREE, *listing("fieldSelector=metadata.name")],
    "pods by phase": [*THREE_PODS, *listing("fieldSelector=status.phase%3DPending", path=PODS)],
    "pods by node": [*THREE_PODS, *listing("fieldSelector=spec.nodeName%3D", path=PODS)],
    "pods by scheduler": [*THREE_PODS, *listing("fieldSelector=spec.schedulerName%3Dother", path=PODS)],
    "pods by a field and a label": [
        *THREE_PODS,
        *listing("fieldSelector=status.phase%3DPending&labelSelector=n%3Dp2", path=PODS),
    ],
    "jobs by a field that is selectable": [
        create(job(), JOBS),
        *listing("fieldSelector=status.successful%3D0", path=JOBS),
    ],
    "a limit": [*THREE, *listing("limit=3", "limit=4")],
    "a list of nothing": [get(MAPS), get(f"{MAPS}?limit=1")],
    # a server answers these two from its cache, which the list before brings up to date
    "a version of long ago": [*THREE, get(MAPS), *listing("resourceVersion=0")],
    "an exact version without a version": [*THREE, *listing("resourceVersionMatch=Exact")],
    "a match that is none": [*THREE, *listing("resourceVersion=1&resourceVersionMatch=Nearly")],
    "not older than a version": [*THREE, get(MAPS), *listing("resourceVersion=1&resourceVersionMatch=NotOlderThan")],
    "a map that is not there": [get(f"{MAPS}/none")],
    "a kind that is not there": [get("/api/v1/namespaces/NS/nonsense")],
    "a version that is not there": [get("/apis/batch/v9/namespaces/NS/jobs")],
    "a cluster-wide kind in a namespace": [get("/api/v1/namespaces/NS/nodes")],
    "a namespaced kind without one": [get("/api/v1/configmaps/it")],
    "a subresource that is not there": [create(config_map(), MAPS), get(f"{MAPS}/it/status")],
    "a namespace is read": [get("/api/v1/namespaces/NS")],
    "a create that is dry": [create(config_map(data={"a": "1"}), f"{MAPS}?dryRun=All"), get(f"{MAPS}/it")],
    "a dry run that is half": [create(config_map(), f"{MAPS}?dryRun=Some")],
    "an update that is dry": [
        create(config_map(data={"a": "1"}), MAPS),
        Step("PUT", f"{MAPS}/it?dryRun=All", config_map(data={"a": "2"})),
        get(f"{MAPS}/it"),
    ],
    "a patch that is dry": [
        create(config_map(data={"a": "1"}), MAPS),
        merge({"data": {"a": "2"}}, f"{MAPS}/it?dryRun=All"),
        get(f"{MAPS}/it"),
    ],
    "a deletion that is dry": [
        create(config_map(data={"a": "1"}), MAPS),
        Step("DELETE", f"{MAPS}/it?dryRun=All"),
        get(f"{MAPS}/it"),
    ],
    "a dry create of what is there": [create(config_map(), MAPS), create(config_map(), f"{MAPS}?dryRun=All")],
    "a dry create of what is invalid": [create(config_map("Not_Good"), f"{MAPS}?dryRun=All")],
    "an unknown field of a map": [
        create({**config_map(), "surprise": 1}, f"{MAPS}?fieldValidation=Strict"),
        create({**config_map(), "surprise": 1}, f"{MAPS}?fieldValidation=Ignore"),
    ],
    "two unknown fields of a pod": [
        create({**pod(surprise=1), "more": 2}, f"{PODS}?fieldValidation=Strict"),
    ],
    "an unknown field of a container": [
        create(pod(containers=[{"name": "c", "image": "x", "imag": "y"}]), f"{PODS}?fieldValidation=Strict"),
    ],
    "an unknown field of an update": [
        create(config_map(), MAPS),
        Step("PUT", f"{MAPS}/it?fieldValidation=Strict", {**config_map(), "surprise": 1}),
    ],
    "an unknown field of a patch": [
        create(config_map(), MAPS),
        merge({"surprise": 1}, f"{MAPS}/it?fieldValidation=Strict"),
        strategic({"surprise": 1}, f"{MAPS}/it?fieldValidation=Strict"),
        merge({"surprise": 1}, f"{MAPS}/it"),
    ],
    "a validation that is none": [create(config_map(), f"{MAPS}?fieldValidation=Sometimes")],
    "all maps are deleted": [*THREE, Step("DELETE", MAPS), get(MAPS)],
    "some maps are deleted": [*THREE, Step("DELETE", f"{MAPS}?labelSelector=tier"), get(MAPS)],
    "one of many is deleted": [*THREE, Step("DELETE", f"{MAPS}?fieldSelector=metadata.name%3Db"), get(MAPS)],
    "all are deleted in a dry run": [*THREE, Step("DELETE", f"{MAPS}?dryRun=All"), get(MAPS)],
    "what has a finalizer stays": [
        create(config_map(finalizers=["example.com/stay"]), MAPS),
        Step("DELETE", MAPS),
        get(f"{MAPS}/it"),
        merge({"metadata": {"finalizers": None}}, f"{MAPS}/it"),
        get(f"{MAPS}/it"),
    ],
    "a deletion in the foreground": [
        create(config_map(), MAPS),
        delete(f"{MAPS}/it", propagationPolicy="Foreground"),
    ],
    "a deletion that orphans": [
        create(config_map(), MAPS),
        delete(f"{MAPS}/it", propagationPolicy="Orphan"),
    ],
    "two policies of one deletion": [
        create(config_map(), MAPS),
        delete(f"{MAPS}/it", propagationPolicy="Orphan", orphanDependents=True),
    ],
    "a deletion by query": [
        create(config_map(), MAPS),
        Step("DELETE", f"{MAPS}/it?propagationPolicy=Background"),
        get(f"{MAPS}/it"),
    ],
    "a generated name": [create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "Bad_"}}, MAPS)],
    "a name and a generated one": [create(config_map(generateName="other-"), MAPS)],
    "neither a name nor a generated one": [create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}, MAPS)],
    "a map twice": [create(config_map(), MAPS), create(config_map(), MAPS)],
    "a map with a version": [create(config_map(resourceVersion="7"), MAPS)],
    "a map in another namespace": [create(config_map(namespace="other"), MAPS)],
    "an update of an old version": [
        create(config_map(data={"a": "1"}), MAPS),
        merge({"data": {"a": "2"}}, f"{MAPS}/it"),
        Step("PUT", f"{MAPS}/it", config_map(data={"a": "3"}, resourceVersion="VERSION")),
    ],
    "an update of what is not there": [Step("PUT", f"{MAPS}/it", config_map())],
    "a secret with text": [
        create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "it"}, "stringData": {"a": "b"}}, SECRETS),
        get(f"{SECRETS}/it"),
    ],
    "an immutable map": [
        create({**config_map(data={"a": "1"}), "immutable": True}, MAPS),
        merge({"data": {"a": "2"}}, f"{MAPS}/it"),
        merge({"immutable": False}, f"{MAPS}/it"),
    ],
    "a JSON patch of several steps": [
        create(config_map(data={"a": "1"}), MAPS),
        json_patch(
            {"op": "add", "path": "/data/b", "value": "2"},
            {"op": "copy", "from": "/data/a", "path": "/data/c"},
            {"op": "move", "from": "/data/b", "path": "/data/d"},
            {"op": "test", "path": "/data/d", "value": "2"},
            {"op": "remove", "path": "/data/a"},
            path=f"{MAPS}/it",
        ),
    ],
    "a merge patch of nothing": [create(config_map(data={"a": "1"}), MAPS), merge({}, f"{MAPS}/it")],
    "a merge patch of a list": [create(config_map(data={"a": "1"}), MAPS), merge([], f"{MAPS}/it")],
    "a strategic patch with an order": [
        create(pod()),
        strategic({"metadata": {"finalizers": ["example.com/b"]}}),
        strategic(
            {
                "metadata": {
                    "$setElementOrder/finalizers": ["example.com/a", "example.com/b"],
                    "finalizers": ["example.com/a"],
                }
            }
        ),
        strategic({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/b"]}}),
        merge({"metadata": {"finalizers": None}}),
    ],
    "a strategic patch that replaces": [
        create(with_metadata(pod(), labels={"a": "1"})),
        strategic({"metadata": {"labels": {"$patch": "replace", "b": "2"}}}),
    ],
    "a strategic patch without a key": [create(pod()), strategic({"spec": {"containers": [{"image": "x"}]}})],
    "a strategic patch with an unknown directive": [
        create(with_metadata(pod(), labels={"a": "1"})),
        strategic({"metadata": {"labels": {"$patch": "bend"}}}),
    ],
    "an owner that is not there": [
        create(
            config_map(ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "p"}]),
            MAPS,
        )
    ],
    "two owners that control": [
        create(
            config_map(
                ownerReferences=[
                    {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True}
                    for name in ("p", "q")
                ]
            ),
            MAPS,
        )
    ],
    "a method that is none": [Step("POST", f"{MAPS}/it", config_map())],
    "a namespace ends": [
        create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "NS-end"}}, "/api/v1/namespaces"),
        create(config_map(finalizers=["example.com/stay"]), "/api/v1/namespaces/NS-end/configmaps"),
        Step("DELETE", "/api/v1/namespaces/NS-end"),
        create(config_map("more"), "/api/v1/namespaces/NS-end/configmaps"),
    ],
    "a namespace that may not end": [Step("DELETE", "/api/v1/namespaces/kube-system")],
    "a namespace with a bad name": [
        create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "Not_Good"}}, "/api/v1/namespaces")
    ],
    "all namespaces are not deleted at once": [Step("DELETE", "/api/v1/namespaces")],
}
