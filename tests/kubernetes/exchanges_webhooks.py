"""Requests that meet admission webhooks over HTTPS, to compare the two API servers by.

The last step of each is what is compared most closely: its answer, and with it all that the webhooks were sent.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from exchanges import NODES, PODS, Manifest, Step, bind, container, create, delete, get, merge, node, pod, with_metadata

MAPS = "/api/v1/namespaces/NS/configmaps"
MAP: Manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "it"}, "data": {"k": "1"}}
MISSING = {"service": {"name": "nowhere", "namespace": "NS", "path": "/x"}}
HEADLESS = {"name": "hook", "namespace": "NS", "path": "/label", "port": 443}
NOBODY = {"url": "https://127.0.0.1:1/x"}


class Hook(NamedTuple):
    """A webhook at a path of the scripted server; PORT and CA in its fields stand for those of that server."""

    path: str
    fields: Manifest | None = None


class Meeting(NamedTuple):
    """Webhooks, and the requests that meet them."""

    mutating: tuple[Hook, ...]
    validating: tuple[Hook, ...]
    steps: tuple[Step, ...]
    before: tuple[Step, ...] = ()  # without webhooks


def mutating(*paths: str, steps: tuple[Step, ...] = (create(MAP, MAPS),), **fields: Any) -> Meeting:
    return Meeting(tuple(Hook(path, fields) for path in paths), (), steps)


def validating(*paths: str, steps: tuple[Step, ...] = (create(MAP, MAPS),), **fields: Any) -> Meeting:
    return Meeting((), tuple(Hook(path, fields) for path in paths), steps)


CREATES = [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["*"]}]
UPDATES = [{"operations": ["UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["*"]}]
DELETES = [{"operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["*/*"]}]
STATUSES = [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/status"]}]
ACTIONS = [
    {"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["pods/binding", "pods/eviction"]}
]
EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "it", "namespace": "NS"}}
GENERATED = {**MAP, "metadata": {"generateName": "it-"}}
THEN_DELETE = (create(MAP, MAPS), delete(f"{MAPS}/it"))
PLAIN_POD = pod(automountServiceAccountToken=False)

EXCHANGES: dict[str, Meeting] = {
    "allowed": validating("/allow", steps=(create(MAP, MAPS), merge({"data": {"k": "2"}}, f"{MAPS}/it"), *THEN_DELETE)),
    "a dry run is told": validating("/allow", steps=(create(MAP, f"{MAPS}?dryRun=All&fieldManager=me"),)),
    "a generated name": Meeting((Hook("/label"),), (Hook("/deny"),), (create(GENERATED, MAPS),)),
    "denied": validating("/deny"),
    "denied by a mutating one": mutating("/deny"),
    "denied without a word": validating("/deny-without-a-word"),
    "denied with a reason": validating("/deny-with-a-reason"),
    "denied with a success": mutating("/deny-with-success"),
    "changed": mutating(
        "/label", steps=(create(MAP, MAPS), get(f"{MAPS}/it"), merge({"data": {"x": "2"}}, f"{MAPS}/it"))
    ),
    "changed by two, each after the other": mutating("/label", "/data"),
    "the earlier one sees what the later one did": Meeting(
        (Hook("/label", {"reinvocationPolicy": "IfNeeded"}), Hook("/data")), (Hook("/allow"),), (create(MAP, MAPS),)
    ),
    "who changes last is not called again": mutating("/allow", "/label", reinvocationPolicy="IfNeeded"),
    "nobody is called again if nothing changes": mutating("/no-change", "/allow", reinvocationPolicy="IfNeeded"),
    "a container is added": mutating("/sidecar", "/allow", steps=(create(PLAIN_POD), get(f"{PODS}/it"))),
    "a container is added and gets its limits": Meeting(
        (Hook("/sidecar"),),
        (Hook("/allow"),),
        (create(PLAIN_POD),),
        (
            create(
                {
                    "metadata": {"name": "limits"},
                    "spec": {
                        "limits": [{"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}}]
                    },
                },
                "/api/v1/namespaces/NS/limitranges",
            ),
        ),
    ),
    "changed to what is not valid": mutating("/spoil"),
    "a field that does not exist is added": mutating("/unknown-field"),
    "what is the server's is changed": mutating("/uid"),
    "a path that does not exist is removed": mutating("/missing-path"),
    "a deletion is changed": mutating("/data", steps=THEN_DELETE, rules=DELETES),
    "a patch without its type": mutating("/patch-without-type"),
    "a type without its patch": mutating("/type-without-patch"),
    "a patch of another type": mutating("/other-type"),
    "a patch that cannot be decoded": mutating("/another-patch-type"),
    "a patch of no type": mutating("/empty-type"),
    "a validating one sends a patch": validating("/data"),
    "an answer to another request": validating("/another-uid"),
    "no response": validating("/no-response"),
    "an answer in an older version": validating("/an-older-version"),
    "an answer without a kind": validating("/without-a-kind"),
    "an older version is asked for": mutating("/an-older-version", admissionReviewVersions=["v1beta1", "v1"]),
    "an answer that is no JSON": validating("/no-json"),
    "an empty answer": validating("/nothing"),
    "a page that is not there": validating("/none"),
    "a bad request": validating("/bad-request"),
    "forbidden": validating("/forbidden"),
    "a teapot": validating("/teapot"),
    "an error": validating("/broken"),
    "an error in JSON": validating("/broken-json"),
    "not available": validating("/unavailable"),
    "an error that may be ignored": mutating("/broken", failurePolicy="Ignore"),
    "an invalid answer that may be ignored": validating("/another-uid", failurePolicy="Ignore"),
    "a denial may not be ignored": validating("/deny", failurePolicy="Ignore"),
    "nobody listens": validating("/x", clientConfig=NOBODY),
    "nobody listens and that may be ignored": mutating("/x", clientConfig=NOBODY, failurePolicy="Ignore"),
    "an authority that signed something else": validating("/x", clientConfig={"url": "https://127.0.0.1:PORT/allow"}),
    "no answer in time": validating("/slow", timeoutSeconds=3),
    "no answer in time and that may be ignored": mutating("/slow", timeoutSeconds=3, failurePolicy="Ignore"),
    "a service that does not exist": validating("/x", clientConfig=MISSING),
    "a service elsewhere": Meeting(
        (Hook("/x", {"clientConfig": {"service": {**HEADLESS, "port": "PORT"}, "caBundle": "CA"}}),),
        (),
        (create(MAP, MAPS),),
        (
            create(
                {"metadata": {"name": "hook"}, "spec": {"type": "ExternalName", "externalName": "127.0.0.1"}},
                "/api/v1/namespaces/NS/services",
            ),
        ),
    ),
    "another operation": validating(
        "/deny", rules=UPDATES, steps=(create(MAP, MAPS), merge({"data": {}}, f"{MAPS}/it"))
    ),
    "a label that is not there": validating("/deny", objectSelector={"matchLabels": {"a": "b"}}),
    "a label that a change removes": validating(
        "/deny",
        objectSelector={"matchLabels": {"a": "b"}},
        rules=UPDATES,
        steps=(
            create(with_metadata(MAP, labels={"a": "b"}), MAPS),
            merge({"metadata": {"labels": None}}, f"{MAPS}/it"),
        ),
    ),
    "a label that a webhook before adds": Meeting(
        (Hook("/label"), Hook("/data", {"objectSelector": {"matchLabels": {"n0": "seen"}}})), (), (create(MAP, MAPS),)
    ),
    "a condition that does not hold": validating("/deny", matchConditions=[{"name": "a", "expression": "false"}]),
    "a condition on the object": validating(
        "/deny", matchConditions=[{"name": "a", "expression": "object.data.k == '1'"}]
    ),
    "a deletion": validating("/deny", steps=THEN_DELETE, rules=DELETES),
    "a deletion with options": validating(
        "/allow",
        steps=(create(MAP, MAPS), delete(f"{MAPS}/it", gracePeriodSeconds=0, propagationPolicy="Background")),
        rules=DELETES,
    ),
    "a deletion of all": validating(
        "/allow",
        steps=(create(MAP, MAPS), delete(f"{MAPS}?labelSelector=!x")),
        rules=DELETES,
    ),
    "a status": validating(
        "/deny", rules=STATUSES, steps=(create(PLAIN_POD), merge({"status": {"message": "x"}}, f"{PODS}/it/status"))
    ),
    "a binding": validating("/allow", rules=ACTIONS, steps=(create(node(), NODES), create(PLAIN_POD), bind())),
    "an eviction": validating(
        "/deny", rules=[*ACTIONS, *DELETES], steps=(create(PLAIN_POD), Step("POST", f"{PODS}/it/eviction", EVICTION))
    ),
    "an eviction is no deletion": validating(
        "/deny", rules=DELETES, steps=(create(PLAIN_POD), Step("POST", f"{PODS}/it/eviction", EVICTION))
    ),
    "invalid before it is asked about": validating(
        "/deny", steps=(create(with_metadata(MAP, labels={"a": "not good!"}), MAPS),)
    ),
    "already there": mutating("/label", steps=(create(MAP, MAPS), create(MAP, MAPS))),
    "more containers": mutating(
        "/allow",
        steps=(
            create(pod(containers=[container(), {**container(), "name": "b"}], automountServiceAccountToken=False)),
        ),
    ),
}


_GROUP = "/apis/admissionregistration.k8s.io/v1"
VALIDATING = f"{_GROUP}/validatingwebhookconfigurations?dryRun=All"
MUTATING = f"{_GROUP}/mutatingwebhookconfigurations?dryRun=All"
OF_NOBODY = {"operations": ["*"], "apiGroups": ["nobody.example.com"], "apiVersions": ["*"], "resources": ["*"]}


def configuration(**fields: Any) -> Manifest:
    hook = {
        "name": "a.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/x"},
        "rules": [OF_NOBODY],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        **fields,
    }
    return {"metadata": {"name": "it"}, "webhooks": [{name: part for name, part in hook.items() if part is not None}]}


def of_service(**service: Any) -> Manifest:
    return configuration(clientConfig={"service": {"name": "a", "namespace": "b", **service}})


def with_url(url: str) -> Manifest:
    return configuration(clientConfig={"url": url})


_WRITTEN: dict[str, Any] = {
    "plain": configuration(),
    "of a service": of_service(),
    "with everything": configuration(
        failurePolicy="Ignore",
        matchPolicy="Exact",
        timeoutSeconds=3,
        namespaceSelector={"matchLabels": {"a": "b"}},
        objectSelector={"matchExpressions": [{"key": "a", "operator": "Exists"}]},
        matchConditions=[{"name": "a", "expression": "request.name == 'x'"}],
        rules=[{**OF_NOBODY, "scope": "Cluster"}],
    ),
    "without webhooks": {"metadata": {"name": "it"}},
    "without side effects": configuration(sideEffects=None),
    "with some side effects": configuration(sideEffects="Some"),
    "without versions": configuration(admissionReviewVersions=None),
    "with versions nobody knows": configuration(admissionReviewVersions=["v2", "v2"]),
    "without a client": configuration(clientConfig={}),
    "with two clients": configuration(clientConfig={"url": "https://a", "service": {"name": "a", "namespace": "b"}}),
    "with a short name": configuration(name="a"),
    "with a bad name": configuration(name="A.example.com"),
    "without a name": configuration(name=None),
    "over HTTP": with_url("http://127.0.0.1/x"),
    "with a user": with_url("https://me@127.0.0.1/x"),
    "with a query": with_url("https://127.0.0.1/x?a=b#c"),
    "without a host": with_url("https:///x"),
    "with a service of no name": of_service(name=""),
    "with a service of no namespace": of_service(namespace=""),
    "with a service at a bad port": of_service(port=70000),
    "with a service at a bad path": of_service(path="x//Y/"),
    "with a long timeout": configuration(timeoutSeconds=31),
    "with no time": configuration(timeoutSeconds=0),
    "with an unknown failure policy": configuration(failurePolicy="Some"),
    "with an unknown match policy": configuration(matchPolicy="Some"),
    "with a bad selector": configuration(objectSelector={"matchExpressions": [{"key": "a", "operator": "Is"}]}),
    "with a rule about nothing": configuration(rules=[{}]),
    "with a rule about everything and more": configuration(rules=[{**OF_NOBODY, "resources": ["*/*", "pods"]}]),
    "with an unknown operation": configuration(rules=[{**OF_NOBODY, "operations": ["GET"]}]),
    "with an unknown scope": configuration(rules=[{**OF_NOBODY, "scope": "Some"}]),
    "with a condition of no name": configuration(matchConditions=[{"expression": "true"}]),
    "with a condition that is no condition": configuration(matchConditions=[{"name": "a", "expression": "1"}]),
    "with the same condition twice": configuration(matchConditions=[{"name": "a", "expression": "true"}] * 2),
    "with the same name twice": {**configuration(), "webhooks": configuration()["webhooks"] * 2},
}

CONFIGURATIONS: dict[str, list[Step]] = {
    **{f"a webhook configuration {name}": [create(value, VALIDATING)] for name, value in _WRITTEN.items()},
    "a mutating webhook configuration": [create(configuration(), MUTATING)],
    "a mutating webhook configuration that is called again": [
        create(configuration(reinvocationPolicy="IfNeeded"), MUTATING)
    ],
    "a mutating webhook configuration that is called at times": [
        create(configuration(reinvocationPolicy="Sometimes"), MUTATING)
    ],
}
