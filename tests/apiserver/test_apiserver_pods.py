"""What only pods have: binding, eviction, and the grace they are deleted with."""

import pytest
from apiserver_client import BUDGETS, MERGE, PODS, Client, accepted, binding, pod, refused

CANNOT = 'Operation cannot be fulfilled on pods/binding "a": '


def running(client, name="a", **more):
    client.create(PODS, pod(name, **more))
    accepted(client.ask("POST", f"{PODS}/{name}/binding", binding()))
    ready = {"type": "Ready", "status": "True", "lastProbeTime": None, "lastTransitionTime": None}
    return client.patch(f"{PODS}/{name}/status", {"status": {"phase": "Running", "conditions": [ready]}})


def test_a_bound_pod_has_its_node_and_the_condition():
    client = Client()
    created = client.create(PODS, pod())
    client.patch(f"{PODS}/a/status", {"status": {"nominatedNodeName": "n-9"}})
    answer = client.ask("POST", f"{PODS}/a/binding", binding("n-1", uid=created["metadata"]["uid"]))
    assert (answer.code, answer.value["status"]) == (201, "Success")
    bound = client.get(f"{PODS}/a")
    assert bound["spec"]["nodeName"] == "n-1"
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
    assert bound["status"]["conditions"] == [{**scheduled, "lastTransitionTime": "1970-01-01T00:16:40Z"}]
    assert "nominatedNodeName" not in bound["status"]
    assert bound["metadata"]["generation"] == 1


def test_a_binding_brings_annotations_along():
    client = Client()
    client.create(PODS, pod())
    client.ask("POST", f"{PODS}/a/binding", {**binding(), "metadata": {"annotations": {"x": "y"}}})
    assert client.get(f"{PODS}/a")["metadata"]["annotations"] == {"x": "y"}


def gated(client):
    client.create(PODS, pod(gates=("example.com/gate",)))


def assigned(client):
    client.create(PODS, pod())
    client.ask("POST", f"{PODS}/a/binding", binding("n-7"))


def deleted(client):
    client.create(PODS, pod())
    client.patch(f"{PODS}/a", {"metadata": {"finalizers": ["example.com/hold"]}})
    client.delete(f"{PODS}/a")


def waiting(client):
    client.create(PODS, pod())


def absent(client):
    assert not client.exists(f"{PODS}/a")


@pytest.mark.parametrize(
    "prepare, body, expected",
    [
        pytest.param(
            gated, binding(), (409, "Conflict", f"{CANNOT}pod a has non-empty .spec.schedulingGates"), id="a gated pod"
        ),
        pytest.param(
            assigned, binding(), (409, "Conflict", f'{CANNOT}pod a is already assigned to node "n-7"'), id="a bound pod"
        ),
        pytest.param(
            deleted,
            binding(),
            (409, "Conflict", f"{CANNOT}pod a is being deleted, cannot be assigned to a host"),
            id="a pod that is being deleted",
        ),
        pytest.param(absent, binding(), (404, "NotFound", 'pods "a" not found'), id="no pod"),
        pytest.param(
            waiting,
            {"target": {"kind": "Rack", "name": "r"}},
            (500, "", 'target.kind: Unsupported value: "Rack": supported values: "Node", "<empty>"'),
            id="a target that is no node",
        ),
        pytest.param(
            waiting,
            {"target": {"kind": "Rack"}},
            (
                500,
                "",
                '[target.kind: Unsupported value: "Rack": supported values: "Node", "<empty>", '
                "target.name: Required value]",
            ),
            id="nothing of a node",
        ),
        pytest.param(waiting, {}, (500, "", "target.name: Required value"), id="no target"),
        pytest.param(
            waiting,
            binding(name="b"),
            (400, "BadRequest", "name in URL does not match name in Binding object"),
            id="another name",
        ),
    ],
)
def test_a_binding_is_refused(prepare, body, expected):
    client = Client()
    prepare(client)
    before = client.get(PODS)["items"]
    assert refused(client.ask("POST", f"{PODS}/a/binding", body)) == expected
    assert client.get(PODS)["items"] == before


@pytest.mark.parametrize(
    "field, value, called",
    [
        pytest.param("uid", "old", "UID", id="an earlier pod of that name"),
        pytest.param("resourceVersion", "1", "ResourceVersion", id="an earlier version of the pod"),
    ],
)
def test_a_binding_meant_for_another_is_refused(field, value, called):
    client = Client()
    created = client.create(PODS, pod())
    code, reason, message = refused(client.ask("POST", f"{PODS}/a/binding", binding(**{field: value})))
    assert (code, reason) == (409, "Conflict")
    found = created["metadata"][field]
    assert message.endswith(f"Precondition failed: {called} in precondition: {value}, {called} in object meta: {found}")


def test_a_binding_meant_for_this_very_pod_as_it_is_holds():
    client = Client()
    metadata = client.create(PODS, pod())["metadata"]
    body = binding(uid=metadata["uid"], resourceVersion=metadata["resourceVersion"])
    assert client.ask("POST", f"{PODS}/a/binding", body).code == 201


def test_a_binding_that_cannot_be_is_about_the_binding():
    client = Client()
    gated(client)
    details = client.ask("POST", f"{PODS}/a/binding", binding()).value["details"]
    assert details == {"name": "a", "kind": "pods/binding"}


@pytest.mark.parametrize(
    "subresource, method, code",
    [
        pytest.param("binding", "GET", 405, id="a binding cannot be read"),
        pytest.param("log", "GET", 501, id="there are no logs"),
    ],
)
def test_other_requests_to_subresources_are_refused(subresource, method, code):
    client = Client()
    client.create(PODS, pod())
    assert client.ask(method, f"{PODS}/a/{subresource}").code == code


def test_a_running_pod_gets_its_grace_and_goes_when_its_kubelet_says_so():
    client = Client()
    running(client, terminationGracePeriodSeconds=20)
    going = client.delete(f"{PODS}/a")
    assert going["metadata"]["deletionTimestamp"] == "1970-01-01T00:17:00Z"
    assert going["metadata"]["deletionGracePeriodSeconds"] == 20
    assert going["metadata"]["generation"] == 2
    assert client.get(f"{PODS}/a") == going
    client.delete(f"{PODS}/a", {"gracePeriodSeconds": 0})
    assert not client.exists(f"{PODS}/a")


def finished(client):
    running(client)
    client.patch(f"{PODS}/a/status", {"status": {"phase": "Succeeded"}})


@pytest.mark.parametrize(
    "prepare", [pytest.param(waiting, id="no node has it"), pytest.param(finished, id="it has ended")]
)
def test_a_pod_without_a_kubelet_at_work_goes_at_once(prepare):
    client = Client()
    prepare(client)
    client.delete(f"{PODS}/a")
    assert not client.exists(f"{PODS}/a")


@pytest.mark.parametrize(
    "later, grace, until",
    [
        pytest.param(5, 5, "1970-01-01T00:16:45Z", id="a shorter grace counts from the first deletion"),
        pytest.param(60, 30, "1970-01-01T00:17:10Z", id="a longer grace changes nothing"),
        pytest.param(None, 30, "1970-01-01T00:17:10Z", id="no grace given changes nothing"),
        pytest.param(-1, 1, "1970-01-01T00:16:41Z", id="less than nothing is one second"),
    ],
)
def test_deleting_again_can_only_shorten_the_grace(later, grace, until):
    client = Client()
    running(client)
    client.delete(f"{PODS}/a")
    client.now += 2
    going = client.delete(f"{PODS}/a", {} if later is None else {"gracePeriodSeconds": later})
    metadata = going["metadata"]
    assert (metadata["deletionGracePeriodSeconds"], metadata["deletionTimestamp"]) == (grace, until)


def budget(client, allowed, observed=1, name="pdb", healthy=1, **more):
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}, **more}
    value = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}
    client.create(BUDGETS, value)
    whole = {"disruptionsAllowed": allowed, "observedGeneration": observed, "currentHealthy": healthy}
    status = {"expectedPods": 1, "desiredHealthy": 1, **whole}
    client.patch(f"{BUDGETS}/{name}/status", {"status": status}, MERGE)


def test_an_eviction_within_the_budget_is_counted_and_deletes_the_pod():
    client = Client()
    running(client, labels={"app": "x"})
    budget(client, allowed=2)
    assert client.ask("POST", f"{PODS}/a/eviction", {"metadata": {"name": "a"}}).code == 201
    status = client.get(f"{BUDGETS}/pdb")["status"]
    assert (status["disruptionsAllowed"], status["disruptedPods"]) == (1, {"a": "1970-01-01T00:16:40Z"})
    going = client.get(f"{PODS}/a")
    assert going["metadata"]["deletionGracePeriodSeconds"] == 30
    (target,) = [one for one in going["status"]["conditions"] if one["type"] == "DisruptionTarget"]
    assert (target["status"], target["reason"]) == ("True", "EvictionByEvictionAPI")


@pytest.mark.parametrize(
    "allowed, observed, cause",
    [
        pytest.param(0, 1, "The disruption budget pdb needs 1 healthy pods and has 1 currently", id="none left"),
        pytest.param(1, 0, "The disruption budget pdb is still being processed by the server.", id="not counted yet"),
    ],
)
def test_an_eviction_beyond_the_budget_is_refused(allowed, observed, cause):
    client = Client()
    running(client, labels={"app": "x"})
    budget(client, allowed, observed)
    before = client.get(f"{PODS}/a"), client.get(f"{BUDGETS}/pdb")
    answer = client.ask("POST", f"{PODS}/a/eviction", {})
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    assert refused(answer) == (429, "TooManyRequests", message)
    assert answer.value["details"]["causes"] == [{"reason": "DisruptionBudget", "message": cause}]
    assert (client.get(f"{PODS}/a"), client.get(f"{BUDGETS}/pdb")) == before


@pytest.mark.parametrize(
    "labels, phase",
    [
        pytest.param({"app": "y"}, "Running", id="the budget is for others"),
        pytest.param({"app": "x"}, "Pending", id="the pod does not run yet"),
        pytest.param({"app": "x"}, "Failed", id="the pod has ended"),
    ],
)
def test_an_eviction_that_disrupts_nothing_needs_no_budget(labels, phase):
    client = Client()
    running(client, labels=labels)
    client.patch(f"{PODS}/a/status", {"status": {"phase": phase}})
    budget(client, allowed=0)
    assert client.ask("POST", f"{PODS}/a/eviction", {"deleteOptions": {"gracePeriodSeconds": 0}}).code == 201
    assert not client.exists(f"{PODS}/a")


@pytest.mark.parametrize(
    "policy, healthy, code",
    [
        pytest.param("IfHealthyBudget", 1, 201, id="the budget is met without it"),
        pytest.param("IfHealthyBudget", 0, 429, id="the budget is not met"),
        pytest.param("AlwaysAllow", 0, 201, id="the budget does not care for such pods"),
    ],
)
def test_a_pod_that_is_not_ready_may_be_evicted_when(policy, healthy, code):
    client = Client()
    running(client, labels={"app": "x"})
    client.patch(f"{PODS}/a/status", {"status": {"conditions": None}})
    budget(client, allowed=0, healthy=healthy, unhealthyPodEvictionPolicy=policy)
    assert client.ask("POST", f"{PODS}/a/eviction", {}).code == code


def test_a_pod_under_two_budgets_cannot_be_evicted():
    client = Client()
    running(client, labels={"app": "x"})
    budget(client, allowed=1)
    budget(client, allowed=1, name="second")
    code, _, message = refused(client.ask("POST", f"{PODS}/a/eviction", {}))
    assert (code, "more than one PodDisruptionBudget" in message) == (500, True)
