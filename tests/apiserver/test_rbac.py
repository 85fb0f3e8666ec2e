"""RBAC on the small Kubernetes: who may do what, now and after roles and bindings have changed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from apiserver_client import CONFIG_MAPS, PODS, config_map, refused

from headgate.apiserver import ApiError, ApiServer, AuthorizationMode, Json, Request, Response
from headgate.apiserver.authorization import AccessAttributes, attributes_of
from headgate.apiserver.messages import ClientIdentity, UserDetails, impersonated_groups
from headgate.apiserver.storage import SavedChange, SavedRevision, SavedState

GROUP = "rbac.authorization.k8s.io"
ROLES, BINDINGS = f"/apis/{GROUP}/v1/namespaces/default/roles", f"/apis/{GROUP}/v1/namespaces/default/rolebindings"
CLUSTER_ROLES, CLUSTER_BINDINGS = f"/apis/{GROUP}/v1/clusterroles", f"/apis/{GROUP}/v1/clusterrolebindings"
REVIEWS = "/apis/authorization.k8s.io/v1"
NOW = 1_000.0
NOTHING = ("", "", "", "", "", "")


def enforcing(**more: Any) -> ApiServer:
    return ApiServer(authorization=AuthorizationMode.RBAC, **more)


def ask(server: ApiServer, user: str, method: str, path: str, value: Any = None) -> Response:
    """Without a user, the administrator asks."""
    path, _, rest = path.partition("?")
    query = dict(part.split("=", 1) for part in rest.split("&") if part)
    body = b"" if value is None else msgspec.json.encode(value)
    who: Json = {"user": user, "groups": impersonated_groups(user, ())} if user else {}
    return server.handle(Request(method, path, query, body, "application/json", **who), NOW)


def rule(verbs: str, resources: str, *names: str, group: str = "") -> Json:
    made = {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}
    return {**made, "resourceNames": list(names)} if names else made


def role(name: str, *rules: Json, **fields: Any) -> Json:
    return {"metadata": {"name": name, **fields.pop("metadata", {})}, "rules": list(rules), **fields}


def binding(name: str, user: str, kind: str = "Role") -> Json:
    subjects = [{"kind": "User", "name": user}]
    return {"metadata": {"name": name}, "roleRef": {"kind": kind, "name": name}, "subjects": subjects}


def grant(server: ApiServer, user: str, *rules: Json, name: str = "granted") -> None:
    assert ask(server, "", "POST", ROLES, role(name, *rules)).code == 201
    assert ask(server, "", "POST", BINDINGS, binding(name, user)).code == 201


@pytest.mark.parametrize(
    "method, path, expected",
    [
        ("GET", "/api/v1/pods", ("list", "", "v1", "", "pods", "", "")),
        ("GET", "/api/v1/pods?watch=true", ("watch", "", "v1", "", "pods", "", "")),
        ("GET", "/api/v1/pods?watch=false", ("list", "", "v1", "", "pods", "", "")),
        ("GET", "/api/v1/watch/pods", ("watch", "", "v1", "", "pods", "", "")),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name=a", ("list", "", "v1", "", "pods", "", "a")),
        ("GET", "/api/v1/pods?fieldSelector=spec.nodeName=a", ("list", "", "v1", "", "pods", "", "")),
        ("DELETE", PODS, ("deletecollection", "", "v1", "default", "pods", "", "")),
        ("DELETE", f"{PODS}/a", ("delete", "", "v1", "default", "pods", "", "a")),
        ("PUT", f"{PODS}/a/status", ("update", "", "v1", "default", "pods", "status", "a")),
        ("GET", "/api/v1/namespaces/a", ("get", "", "v1", "a", "namespaces", "", "a")),
        ("PUT", "/api/v1/namespaces/a/finalize", ("update", "", "v1", "a", "namespaces", "finalize", "a")),
        ("POST", "/apis/x.io/v2/things", ("create", "x.io", "v2", "", "things", "", "")),
        ("OPTIONS", "/api/v1/pods", ("", "", "v1", "", "pods", "", "")),
    ],
)
def test_what_a_request_asks_for(method: str, path: str, expected: tuple[str, ...]):
    path, _, query = path.partition("?")
    verb, *rest = expected
    pairs = dict([query.split("=", 1)] if query else [])
    assert attributes_of(method, path, pairs) == AccessAttributes(verb, "", *rest)


@pytest.mark.parametrize("path", ["/", "/api", "/api/v1", "/apis/batch/v1", "/version", "/openapi/v3/apis/batch/v1"])
def test_a_path_that_is_no_resource_is_asked_for_as_a_path(path: str):
    assert attributes_of("GET", path, {}) == AccessAttributes("get", path)


def test_without_rbac_everybody_may_do_everything():
    assert ask(ApiServer(), "jane", "GET", CONFIG_MAPS).code == 200


def test_what_no_rule_allows_is_refused_with_who_and_what():
    expected = 'User "jane" cannot list resource "configmaps" in API group "" in the namespace "default"'
    assert refused(ask(enforcing(), "jane", "GET", CONFIG_MAPS)) == (
        403,
        "Forbidden",
        f"configmaps is forbidden: {expected}",
    )


def test_whoever_asks_is_refused_before_anything_is_looked_up_or_decoded():
    server = enforcing()
    for path in (f"{CONFIG_MAPS}/none", "/apis/no.such/v1/things", "/nonsense"):
        assert ask(server, "jane", "GET", path).code == 403
    assert server.handle(Request("POST", CONFIG_MAPS, body=b"{", user="jane"), NOW).code == 403


def test_a_watch_is_refused_like_a_list():
    server = enforcing()
    grant(server, "jane", rule("list", "configmaps"))
    with pytest.raises(ApiError, match='cannot watch resource "configmaps"'):
        server.watch(CONFIG_MAPS, {}, "jane")
    assert server.watch(CONFIG_MAPS, {}) is not None, "the administrator's is not"


def test_clients_can_discover_and_ask_what_they_may_do():
    server = enforcing()
    for path in ("/api", "/apis", "/version", "/openapi/v3", "/api/v1"):
        assert ask(server, "jane", "GET", path).code == 200
    assert ask(server, "system:anonymous", "GET", "/version").code == 200
    assert ask(server, "system:anonymous", "GET", "/api").code == 403
    assert ask(server, "jane", "POST", f"{REVIEWS}/selfsubjectaccessreviews", review("get", "pods")).code == 201


def review(verb: str, resource: str, **spec: Any) -> Json:
    return {"spec": {"resourceAttributes": {"verb": verb, "resource": resource, "namespace": "default"}, **spec}}


def test_rights_come_and_go_with_roles_and_bindings():
    server = enforcing()
    path = f"{CONFIG_MAPS}/a"
    codes = [ask(server, "jane", "GET", path).code]
    ask(server, "", "POST", BINDINGS, binding("granted", "jane"))
    codes.append(ask(server, "jane", "GET", path).code)  # the role is missing
    ask(server, "", "POST", ROLES, role("granted", rule("get", "configmaps")))
    codes.append(ask(server, "jane", "GET", path).code)
    ask(server, "", "PUT", f"{ROLES}/granted", role("granted", rule("get", "pods")))
    codes.append(ask(server, "jane", "GET", path).code)
    ask(server, "", "PUT", f"{ROLES}/granted", role("granted", rule("get", "configmaps")))
    codes.append(ask(server, "jane", "GET", path).code)
    ask(server, "", "PUT", f"{BINDINGS}/granted", {**binding("granted", "joe")})
    codes += [ask(server, user, "GET", path).code for user in ("jane", "joe")]
    ask(server, "", "DELETE", f"{BINDINGS}/granted")
    codes.append(ask(server, "joe", "GET", path).code)
    assert codes == [403, 403, 404, 403, 404, 403, 404, 403]


def started_again(first: ApiServer) -> ApiServer:
    """Another server on what the first has saved."""
    saved = [
        SavedChange(
            change.type,
            change.collection.group,
            change.collection.plural,
            change.namespace,
            change.name,
            SavedRevision(change.after.version, change.after.raw),
        )
        for change in first.take_unsaved()
    ]
    latest = {(each.group, each.plural, each.namespace, each.name): each for each in saved}
    objects = [each for each in latest.values() if each.type != "DELETED"]
    return enforcing(saved=SavedState(first.version, first.version, objects))


def test_a_server_that_starts_again_decides_the_same():
    first = enforcing(saved=SavedState())
    grant(first, "jane", rule("list", "configmaps"))
    ask(first, "", "DELETE", f"{CLUSTER_BINDINGS}/system:discovery")
    again = started_again(first)
    for server in (first, again):
        assert ask(server, "jane", "GET", CONFIG_MAPS).code == 200
        assert ask(server, "jane", "GET", "/api/v1/pods").code == 403
        assert ask(server, "jane", "GET", f"{CONFIG_MAPS}/a").code == 403
    assert ask(again, "jane", "GET", "/api").code == 200, "default bindings that are missing come back"


def changed(server: ApiServer, path: str, **fields: Any) -> None:
    stored = ask(server, "", "GET", path).value
    metadata = {**stored["metadata"], **fields.pop("metadata", {})}
    assert ask(server, "", "PUT", path, {**stored, **fields, "metadata": metadata}).code == 200


def test_default_roles_get_back_what_they_lack_when_a_server_starts_again():
    first, own = enforcing(saved=SavedState()), rule("list", "things", group="x.io")
    user, view, admin = (f"{CLUSTER_ROLES}/{name}" for name in ("system:basic-user", "view", "cluster-admin"))
    bound = f"{CLUSTER_BINDINGS}/system:basic-user"
    before = {path: ask(first, "", "GET", path).value for path in (user, view, admin, bound)}
    changed(first, user, rules=[own], metadata={"labels": {"mine": "1"}})
    changed(first, view, aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]})
    changed(first, bound, subjects=[{"apiGroup": GROUP, "kind": "User", "name": "jane"}])
    ask(first, "", "DELETE", admin)
    again = started_again(first)
    after = {path: ask(again, "", "GET", path).value for path in before}
    verbs = {name for each in after[user]["rules"] if own != each for name in each["resources"]}
    assert verbs == {"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"}
    assert after[user]["rules"][0] == own, "what it has besides stays"
    assert after[user]["metadata"]["labels"] == {**before[user]["metadata"]["labels"], "mine": "1"}
    assert after[view]["rules"] == before[view]["rules"], "it aggregates what it aggregated, and more"
    assert [each["name"] for each in after[bound]["subjects"]] == ["jane", "system:authenticated"]
    assert after[admin]["rules"] == before[admin]["rules"]


def test_a_default_binding_to_another_role_is_made_anew():
    first, bound = enforcing(saved=SavedState()), f"{CLUSTER_BINDINGS}/system:basic-user"
    other = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "view"}
    ask(first, "", "DELETE", bound)
    ask(first, "", "POST", CLUSTER_BINDINGS, {"metadata": {"name": "system:basic-user"}, "roleRef": other})
    assert ask(started_again(first), "", "GET", bound).value["roleRef"]["name"] == "system:basic-user"


def test_a_default_role_that_is_to_be_left_alone_is():
    first, path = enforcing(saved=SavedState()), f"{CLUSTER_ROLES}/system:basic-user"
    left_alone = {"rbac.authorization.kubernetes.io/autoupdate": "false"}
    changed(first, path, rules=[], metadata={"annotations": left_alone})
    again = started_again(first)
    assert not ask(again, "", "GET", path).value.get("rules")


def test_a_server_that_starts_again_writes_no_default_role_that_lacks_nothing():
    first = enforcing(saved=SavedState())
    assert started_again(first).version == first.version


def aggregating(name: str, *labels: str, **metadata: Any) -> Json:
    selectors = [{"matchLabels": {label: "true"}} for label in labels]
    return role(name, metadata=metadata, aggregationRule={"clusterRoleSelectors": selectors})


def test_an_aggregated_role_has_the_rules_of_those_it_selects():
    server, rules = enforcing(), [rule("list", "things", group="x.io")]
    ask(server, "", "POST", CLUSTER_BINDINGS, binding("view", "jane", "ClusterRole"))
    assert ask(server, "jane", "GET", PODS).code == 200, "what may be viewed everywhere"
    assert ask(server, "jane", "GET", "/api/v1/namespaces/default/secrets").code == 403
    assert ask(server, "jane", "GET", "/apis/x.io/v1/things").code == 403
    more = role("more", *rules, metadata={"labels": {f"{GROUP}/aggregate-to-view": "true"}})
    ask(server, "", "POST", CLUSTER_ROLES, more)
    assert ask(server, "jane", "GET", "/apis/x.io/v1/things").code == 404
    for name in ("view", "edit", "admin"):
        assert rules[0] in ask(server, "", "GET", f"{CLUSTER_ROLES}/{name}").value["rules"]
    ask(server, "", "DELETE", f"{CLUSTER_ROLES}/more")
    assert ask(server, "jane", "GET", "/apis/x.io/v1/things").code == 403


def test_roles_that_aggregate_one_another_come_to_rest():
    server = enforcing()
    for number in range(3):
        labels = {f"cycle-{number}": "true"}
        made = aggregating(f"r-{number}", f"cycle-{(number + 1) % 3}", "leaf", labels=labels)
        assert ask(server, "", "POST", CLUSTER_ROLES, made).code == 201
    ask(server, "", "POST", CLUSTER_ROLES, role("leaf", rule("get", "pods"), metadata={"labels": {"leaf": "true"}}))
    found = [ask(server, "", "GET", f"{CLUSTER_ROLES}/r-{number}").value["rules"] for number in range(3)]
    assert found == [[rule("get", "pods")]] * 3


def test_nobody_grants_what_they_do_not_have():
    server = enforcing()
    grant(server, "jane", rule("create", "roles rolebindings", group=GROUP), rule("get", "pods"))
    assert ask(server, "jane", "POST", ROLES, role("less", rule("get", "pods"))).code == 201
    more = role("more", rule("get delete", "pods secrets"))
    code, reason, message = refused(ask(server, "jane", "POST", ROLES, more))
    assert (code, reason) == (403, "Forbidden")
    assert message == (
        f'roles.{GROUP} "more" is forbidden: user "jane" (groups=["system:authenticated"]) is attempting to grant RBAC '
        'permissions not currently held:\n{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}\n'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "delete"]}'
    )
    bound = ask(server, "jane", "POST", BINDINGS, binding("cluster-admin", "jane", "ClusterRole"))
    assert bound.code == 403 and ask(server, "jane", "GET", CONFIG_MAPS).code == 403
    grant(server, "jane", rule("escalate", "roles", group=GROUP), rule("bind", "roles", "x", group=GROUP), name="x")
    assert ask(server, "jane", "POST", ROLES, role("more", rule("*", "*"))).code == 201
    assert ask(server, "jane", "POST", BINDINGS, binding("more", "jane")).code == 403
    assert ask(server, "jane", "DELETE", f"{ROLES}/more").code == 403


def test_a_service_account_has_the_rules_of_its_groups():
    server = enforcing()
    subjects = [{"kind": "Group", "name": "system:serviceaccounts:default"}]
    ask(server, "", "POST", ROLES, role("granted", rule("list", "configmaps")))
    ask(server, "", "POST", BINDINGS, {**binding("granted", ""), "subjects": subjects})
    assert ask(server, "system:serviceaccount:default:robot", "GET", CONFIG_MAPS).code == 200
    assert ask(server, "system:serviceaccount:other:robot", "GET", CONFIG_MAPS).code == 403
    assert ask(server, "system:serviceaccount:default", "GET", CONFIG_MAPS).code == 403, "a name that is no account"


def test_reviews_are_answered_by_the_rules():
    server = enforcing()
    grant(server, "jane", rule("get", "pods", "a"))
    path = f"{REVIEWS}/subjectaccessreviews"
    asked = {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default", "name": "a"}}
    found = ask(server, "", "POST", path, {"spec": {**asked, "user": "jane"}}).value["status"]
    assert found == {
        "allowed": True,
        "reason": 'RBAC: allowed by RoleBinding "granted/default" of Role "granted" to User "jane"',
    }
    assert ask(server, "", "POST", path, {"spec": {**asked, "user": "joe"}}).value["status"] == {"allowed": False}
    assert ask(server, "jane", "POST", path, {"spec": {**asked, "user": "joe"}}).code == 403
    rules = ask(server, "jane", "POST", f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}})
    assert rule("get", "pods", "a") in rules.value["status"]["resourceRules"]


def test_whoever_may_impersonate_acts_as_another_and_nobody_else_does():
    server, jane = enforcing(), ClientIdentity("jane", ("system:authenticated",))
    with pytest.raises(
        ApiError, match='User "jane" cannot impersonate resource "users" in API group "" at the cluster'
    ):
        server.impersonated(jane, "joe", ())
    with pytest.raises(ApiError, match='resource "serviceaccounts" in API group "" in the namespace "default"'):
        server.impersonated(jane, "system:serviceaccount:default:robot", ())
    with pytest.raises(ApiError, match="without impersonating a user"):
        server.impersonated(ClientIdentity("root", ("system:masters",)), "", ("x",))
    made = role("granted", rule("impersonate", "users groups", "joe", "readers"))
    ask(server, "", "POST", CLUSTER_ROLES, made)
    ask(server, "", "POST", CLUSTER_BINDINGS, binding("granted", "jane", "ClusterRole"))
    assert server.impersonated(jane, "joe", ("readers",)) == ClientIdentity("joe", ("readers", "system:authenticated"))
    with pytest.raises(ApiError, match='groups "system:masters" is forbidden'):
        server.impersonated(jane, "joe", ("system:masters",))
    for details, refused_for in (
        (UserDetails("u-1"), 'resource "uids" in API group "authentication.k8s.io"'),
        (UserDetails(extra=(("scopes", ("view", "edit")),)), 'resource "userextras/scopes" in API group'),
    ):
        with pytest.raises(ApiError, match=refused_for):
            server.impersonated(jane, "joe", (), details)
    with pytest.raises(ApiError, match='users "system:admin" is forbidden'):
        server.impersonated(jane, "system:admin", ())


def test_the_name_of_the_administrator_gives_no_rights_to_whom_says_it_is_somebody_else():
    root = ClientIdentity("root", ("system:masters",))
    assert enforcing().impersonated(root, "system:admin", ()).groups == ("system:authenticated",)


def test_to_patch_is_not_enough_to_create_by_apply():
    server = enforcing(tracks_fields=True)
    grant(server, "jane", rule("patch", "configmaps"))

    def applied() -> int:
        body = msgspec.json.encode(config_map("a"))
        kind = "application/apply-patch+yaml"
        return server.handle(Request("PATCH", f"{CONFIG_MAPS}/a", {"fieldManager": "x"}, body, kind, "jane"), NOW).code

    codes = [applied()]
    grant(server, "jane", rule("create", "configmaps"), name="creator")
    assert [*codes, applied(), applied()] == [403, 201, 200]


def test_what_a_client_writes_is_admitted_as_before():
    server = enforcing()
    grant(server, "jane", rule("create", "configmaps"))
    assert ask(server, "jane", "POST", CONFIG_MAPS, config_map("a")).code == 201
