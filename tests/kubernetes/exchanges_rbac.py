"""Exchanges with servers that enforce RBAC: who asks, and for what. The first words of a step name the user."""

from __future__ import annotations

from typing import Any

from exchanges import PODS, Manifest, Step, create, get, merge, pod

GROUP = "rbac.authorization.k8s.io"
ROLES = f"/apis/{GROUP}/v1/namespaces/NS/roles"
BINDINGS = f"/apis/{GROUP}/v1/namespaces/NS/rolebindings"
CLUSTER_ROLES = f"/apis/{GROUP}/v1/clusterroles"
CLUSTER_BINDINGS = f"/apis/{GROUP}/v1/clusterrolebindings"
REVIEWS = "/apis/authorization.k8s.io/v1"
MAPS = "/api/v1/namespaces/NS/configmaps"
ADMIN, JANE = "", "NS-jane"

Asked = tuple[str | tuple[str, ...], Step]
"""Who asks (a user, and groups it is in besides) and what; nobody is the administrator."""


def rule(verbs: str, resources: str, *names: str, groups: str = "") -> Manifest:
    given = {"apiGroups": groups.split(" "), "resources": resources.split(" "), "verbs": verbs.split(" ")}
    return {**given, "resourceNames": list(names)} if names else given


def urls(verbs: str, paths: str) -> Manifest:
    return {"nonResourceURLs": paths.split(" "), "verbs": verbs.split(" ")}


def role(name: str, *rules: Any, kind: str = "Role", **fields: Any) -> Manifest:
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name}, "rules": list(rules), **fields}


def subject(kind: str, name: str, **fields: str) -> Manifest:
    return {"kind": kind, "name": name, **fields}


def binding(name: str, to: str, *subjects: Any, kind: str = "Role", **fields: Any) -> Manifest:
    reference = {"apiGroup": GROUP, "kind": kind, "name": to}
    made = {"apiVersion": f"{GROUP}/v1", "kind": "RoleBinding", "metadata": {"name": name}, "roleRef": reference}
    return {**made, "subjects": list(subjects), **fields}


def given(*rules: Any, to: Manifest | None = None) -> tuple[Asked, ...]:
    """Jane, or that subject, has these rules in the namespace."""
    bound = binding("granted", "granted", to or subject("User", JANE))
    return (ADMIN, create(role("granted", *rules), ROLES)), (ADMIN, create(bound, BINDINGS))


def given_everywhere(*rules: Any, name: str = "NS-granted") -> tuple[Asked, ...]:
    made = role(name, *rules, kind="ClusterRole")
    bound = {**binding(name, name, subject("User", JANE), kind="ClusterRole"), "kind": "ClusterRoleBinding"}
    return (ADMIN, create(made, CLUSTER_ROLES)), (ADMIN, create(bound, CLUSTER_BINDINGS))


def as_jane(*steps: Step) -> tuple[Asked, ...]:
    return tuple((JANE, step) for step in steps)


def review(kind: str, spec: Any, place: str = "", **metadata: str) -> Step:
    below = f"namespaces/{place}/" if place else ""
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}
    return Step("POST", f"{REVIEWS}/{below}{kind.lower()}s", body)


def asks(verb: str, resource: str, **more: str) -> Manifest:
    return {"resourceAttributes": {"verb": verb, "resource": resource, **more}}


def asks_path(path: str) -> Manifest:
    return {"nonResourceAttributes": {"verb": "get", "path": path}}


_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "it"}}


def _applied(value: Manifest) -> Step:
    return Step("PATCH", f"{MAPS}/it?fieldManager=x", value, "application/apply-patch+yaml")


_ALL_VERBS = (
    create(_MAP, MAPS),
    get(f"{MAPS}/it"),
    get(MAPS),
    get("/api/v1/configmaps"),
    get(f"{MAPS}?watch=true&timeoutSeconds=1"),
    get(f"{MAPS}?fieldSelector=metadata.name%3Dit"),
    Step("PUT", f"{MAPS}/it", _MAP),
    merge({"data": {"a": "b"}}, f"{MAPS}/it"),
    Step("DELETE", f"{MAPS}/it"),
    Step("DELETE", MAPS),
    get("/api/v1/namespaces/NS"),
    get("/api/v1/namespaces"),
    get("/apis/batch/v1/namespaces/NS/jobs/it/status"),
    Step("PATCH", f"{PODS}/it/status", {}, "application/merge-patch+json"),
    Step("POST", f"{PODS}/it/binding", {}),
    Step("POST", f"{PODS}/it/eviction", {}),
    Step("POST", "/api/v1/namespaces/NS/serviceaccounts/it/token", {}),
    get("/apis/nonsense.example/v1/namespaces/NS/things"),
    get("/apis/nonsense.example/v1/things/a/b/c"),
    get("/api/v1/nonsense"),
    get("/nonsense"),
    get("/nonsense<>&/"),
    get("/metrics"),
    Step("POST", "/version"),
    Step("PUT", "/api/v1/namespaces/NS/finalize", {}),
    Step("DELETE", "/api/v1/nodes"),
)

REQUESTS: dict[str, tuple[Asked, ...]] = {
    "nobody may do anything that no rule allows": as_jane(*_ALL_VERBS),
    "whoever is unknown may do less": tuple((("system:anonymous",), step) for step in _ALL_VERBS[:3]),
    "a service account without rules": (("system:serviceaccount:NS:robot", get(PODS)),),
    "a role allows its verbs": (
        *given(rule("get create", "configmaps")),
        *as_jane(create(_MAP, MAPS), get(f"{MAPS}/it"), get(MAPS), Step("DELETE", f"{MAPS}/it")),
        (JANE, get("/api/v1/namespaces/default/configmaps/it")),
    ),
    "a rule for a name is for that name": (
        *given(rule("get list delete", "configmaps", "it")),
        (ADMIN, create(_MAP, MAPS)),
        *as_jane(
            get(f"{MAPS}/it"),
            get(f"{MAPS}/other"),
            get(MAPS),
            get(f"{MAPS}?fieldSelector=metadata.name%3Dother"),
            Step("DELETE", MAPS),
            Step("DELETE", f"{MAPS}/it"),
        ),
    ),
    "a rule for a subresource is not for the resource": (
        *given(rule("patch create", "pods/status pods/binding")),
        (ADMIN, create(pod(), PODS)),
        *as_jane(merge({"metadata": {"labels": {"a": "b"}}}, f"{PODS}/it")),
        *as_jane(merge({"metadata": {"labels": {"a": "b"}}}, f"{PODS}/it/status")),
    ),
    "a rule for all subresources of a name": (
        *given(rule("get", "*/status")),
        *as_jane(get(f"{PODS}/none/status"), get(f"{PODS}/none"), get(f"{PODS}/none/log")),
    ),
    "rules for a group": (
        *given(rule("list", "configmaps"), to=subject("Group", "NS-readers")),
        *(((JANE, "NS-readers"), step) for step in (get(f"{MAPS}/it"), get(f"{MAPS}?limit=1&labelSelector=none"))),
        ((JANE, "NS-others"), get(MAPS)),
    ),
    "rules for a service account": (
        *given(rule("list", "configmaps"), to=subject("ServiceAccount", "robot", namespace="NS")),
        ("system:serviceaccount:NS:robot", get(f"{MAPS}?labelSelector=none")),
        ("system:serviceaccount:NS:other", get(MAPS)),
    ),
    "a role that is not there grants nothing and is named": (
        (ADMIN, create(binding("b", "missing", subject("User", JANE)), BINDINGS)),
        (JANE, get(MAPS)),
        (JANE, review("SelfSubjectAccessReview", asks("get", "pods", namespace="NS"))),
    ),
    "paths that are no resources": (
        *given_everywhere(urls("get", "/NS/* /NS-exact")),
        *as_jane(get("/NS-exact/"), get("/NS"), get("/NS-other")),
        *as_jane(*(review("SelfSubjectAccessReview", asks_path(path)) for path in ("/NS/a/b", "/NS-exact", "/NS"))),
    ),
    "a role everywhere": (
        *given_everywhere(rule("list", "nodes configmaps")),
        *as_jane(
            get(f"{MAPS}?labelSelector=none"), get("/api/v1/configmaps?labelSelector=none"), get("/api/v1/nodes/it")
        ),
    ),
    "what an apply creates takes the right to create": (
        *given(rule("patch get", "configmaps")),
        (JANE, _applied(_MAP)),
        (JANE, get(f"{MAPS}/it")),
        (ADMIN, create(_MAP, MAPS)),
        (
            JANE,
            Step("PATCH", f"{MAPS}/it?fieldManager=x", {**_MAP, "data": {"a": "b"}}, "application/apply-patch+yaml"),
        ),
    ),
    "masters may do everything": (((JANE, "system:masters"), get(f"{MAPS}/none")),),
}

_OWN = rule("get list", "configmaps secrets")
ESCALATIONS: dict[str, tuple[Asked, ...]] = {
    "nobody grants more than they have": (
        *given(rule("create update patch get", "roles rolebindings", groups=GROUP), _OWN),
        *as_jane(
            create(role("less", rule("get", "configmaps")), ROLES),
            create(role("more", rule("get delete watch", "configmaps pods"), rule("get", "secrets", "a", "b")), ROLES),
            create(role("named", rule("get", "configmaps", "a")), ROLES),
            create(role("wide", rule("*", "*", groups="*")), ROLES),
            create(role("sub", rule("get", "configmaps/status")), ROLES),
            merge({"rules": [rule("delete", "configmaps")]}, f"{ROLES}/less"),
            merge({"metadata": {"labels": {"a": "b"}}}, f"{ROLES}/less"),
            merge({"metadata": {"labels": {"a": "b"}}}, f"{ROLES}/granted"),
            create(binding("less", "less", subject("User", "x")), BINDINGS),
            create(binding("none", "none", subject("User", "x")), BINDINGS),
            create(binding("view", "NS-none", subject("User", "x"), kind="ClusterRole"), BINDINGS),
            create(binding("all", "cluster-admin", subject("User", "x"), kind="ClusterRole"), BINDINGS),
            create(binding("odd", "x", subject("User", "x"), kind="Other"), BINDINGS),
            create(binding("own", "granted", subject("User", "x")), BINDINGS),
        ),
        (ADMIN, create(role("admins", rule("delete", "pods")), ROLES)),
        (ADMIN, create(binding("admins", "admins", subject("User", "y")), BINDINGS)),
        *as_jane(
            merge({"metadata": {"labels": {"a": "b"}}}, f"{ROLES}/admins"),
            merge({"metadata": {"finalizers": ["a.example/b"]}}, f"{ROLES}/admins"),
            merge({"metadata": {"labels": {"a": "b"}}}, f"{BINDINGS}/admins"),
            merge({"metadata": {"finalizers": ["a.example/b"]}}, f"{BINDINGS}/admins"),
            merge({"subjects": [subject("User", JANE)]}, f"{BINDINGS}/admins"),
        ),
        (ADMIN, merge({"metadata": {"finalizers": None}}, f"{ROLES}/admins")),
        (ADMIN, merge({"metadata": {"finalizers": None}}, f"{BINDINGS}/admins")),
    ),
    "whoever may escalate or bind does": (
        *given(
            rule("create update escalate", "roles", groups=GROUP),
            rule("create bind", "rolebindings", groups=GROUP),
            rule("bind", "roles clusterroles", "strong", "view", groups=GROUP),
        ),
        *as_jane(
            create(role("strong", rule("*", "*", groups="*")), ROLES),
            create(binding("strong", "strong", subject("User", "x")), BINDINGS),
            create(binding("view", "view", subject("User", "x"), kind="ClusterRole"), BINDINGS),
            create(binding("edit", "cluster-admin", subject("User", "x"), kind="ClusterRole"), BINDINGS),
        ),
    ),
    "aggregation takes the rights of an administrator": (
        *given_everywhere(rule("create update patch", "clusterroles", groups=GROUP)),
        *as_jane(
            create(role("NS-empty", kind="ClusterRole"), CLUSTER_ROLES),
            create(role("NS-urls", urls("get", "/NS"), kind="ClusterRole"), CLUSTER_ROLES),
            create(
                role(
                    "NS-all",
                    kind="ClusterRole",
                    aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"NS": "x"}}]},
                ),
                CLUSTER_ROLES,
            ),
        ),
    ),
}

_NO_ONE = {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "NS"}}
ACCESS_REVIEWS: dict[str, tuple[Asked, ...]] = {
    "what one may do oneself": (
        *given(rule("get", "pods pods/log"), rule("list", "*", groups="apps")),
        *as_jane(
            review("SelfSubjectAccessReview", asks("get", "pods", namespace="NS")),
            review("SelfSubjectAccessReview", asks("get", "pods")),
            review("SelfSubjectAccessReview", asks("get", "pods", namespace="NS", subresource="log", name="x")),
            review("SelfSubjectAccessReview", asks("list", "deployments", group="apps", version="*", namespace="NS")),
            review("SelfSubjectAccessReview", asks("*", "*", group="*", namespace="NS")),
            review("SelfSubjectAccessReview", asks_path("/api")),
            review("SelfSubjectAccessReview", asks_path("/nonsense")),
            review("SelfSubjectAccessReview", {}),
            review("SelfSubjectAccessReview", {**_NO_ONE, "nonResourceAttributes": {"verb": "get", "path": "/"}}),
            review("SelfSubjectRulesReview", {}),
            review("SubjectAccessReview", {**_NO_ONE, "user": "x"}),
            review("LocalSubjectAccessReview", {**_NO_ONE, "user": "x"}, "NS", namespace="NS"),
        ),
        (ADMIN, review("SelfSubjectAccessReview", asks("delete", "nodes"))),
    ),
    "what others may do": (
        *given(rule("get", "pods")),
        (ADMIN, review("SubjectAccessReview", {**_NO_ONE, "user": JANE})),
        (ADMIN, review("SubjectAccessReview", {**_NO_ONE, "user": "NS-nobody"})),
        (ADMIN, review("SubjectAccessReview", {**_NO_ONE, "groups": ["system:masters"]})),
        (ADMIN, review("SubjectAccessReview", {**_NO_ONE, "user": "x", "groups": ["system:authenticated"]})),
        (ADMIN, review("SubjectAccessReview", _NO_ONE)),
        (ADMIN, review("SubjectAccessReview", {"user": "x"})),
        (
            ADMIN,
            review("SubjectAccessReview", {"user": "x", "nonResourceAttributes": {"verb": "get", "path": "/livez"}}),
        ),
        (ADMIN, review("LocalSubjectAccessReview", {**_NO_ONE, "user": JANE}, "NS", namespace="NS")),
        (ADMIN, review("LocalSubjectAccessReview", {**_NO_ONE, "user": JANE}, "NS")),
        (ADMIN, review("LocalSubjectAccessReview", {**asks("get", "pods"), "user": JANE}, "NS", namespace="NS")),
        (
            ADMIN,
            review(
                "LocalSubjectAccessReview",
                {"user": JANE, "nonResourceAttributes": {"verb": "get", "path": "/"}},
                "NS",
                namespace="NS",
            ),
        ),
    ),
}

_BAD_SUBJECTS = (
    subject("Nobody", "x"),
    subject("User", ""),
    subject("User", "x", apiGroup="other"),
    subject("ServiceAccount", "Bad_Name"),
    subject("ServiceAccount", "x", apiGroup=GROUP),
)
OBJECTS: dict[str, tuple[Asked, ...]] = {
    "a role is stored as it is": tuple(
        (ADMIN, step)
        for step in (
            create(role("it", rule("get", "pods")), ROLES),
            get(f"{ROLES}/it"),
            create({k: v for k, v in role("none").items() if k != "rules"}, ROLES),
            create(role("a:b c"), ROLES),
            create(role("a/b"), ROLES),
            create(role("bad%"), ROLES),
        )
    ),
    "rules that are none": tuple(
        (ADMIN, create(role("bad", each), ROLES))
        for each in ({}, {"verbs": ["get"]}, urls("get", "/x"), {**rule("get", "pods"), **urls("get", "/x")})
    ),
    "rules that are none everywhere": tuple(
        (ADMIN, create(role("NS-bad", kind="ClusterRole", **each), CLUSTER_ROLES))
        for each in (
            {"rules": [{**rule("get", "pods"), **urls("get", "/x")}]},
            {"aggregationRule": {}},
            {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a b": "c"}}]}},
        )
    ),
    "bindings get the groups of their subjects": tuple(
        (ADMIN, step)
        for step in (
            create(
                binding("it", "x", subject("User", "u"), subject("Group", "g"), subject("ServiceAccount", "s")),
                BINDINGS,
            ),
            create({**binding("bare", "x"), "roleRef": {"kind": "Role", "name": "x"}}, BINDINGS),
            merge({"roleRef": {"name": "y"}}, f"{BINDINGS}/it"),
            merge({"subjects": None}, f"{BINDINGS}/it"),
        )
    ),
    "bindings that are none": (
        *((ADMIN, create(binding("bad", "x", each), BINDINGS)) for each in _BAD_SUBJECTS),
        *(
            (ADMIN, create({**binding("bad", "x"), "roleRef": each}, BINDINGS))
            for each in ({}, {"kind": "X", "name": "a/b"})
        ),
        (
            ADMIN,
            create(
                {**binding("NS-bad", "x", subject("ServiceAccount", "s")), "kind": "ClusterRoleBinding"},
                CLUSTER_BINDINGS,
            ),
        ),
    ),
}
EXCHANGES = {**REQUESTS, **ESCALATIONS, **ACCESS_REVIEWS, **OBJECTS}
