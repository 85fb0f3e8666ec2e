"""Which Workloads may be created: the verdicts themselves, and a cluster that asks for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from headgate.api.admission import InvalidReview, answer
from headgate.api.install_manifests import WEBHOOKS, AtService, AtUrl, definitions, rights, webhook_configurations
from headgate.apiserver import ADMISSION, INITIAL_OBJECTS, ApiServer, Json, Request, Response
from headgate.gates.webhooks import HANDLERS, class_to_fill_in, priority_class_response
from headgate.model.admission import (
    AdmissionAllowed,
    AdmissionDenied,
    AdmissionRequest,
    AdmissionResponse,
    AdmissionWebhook,
    DeferredResponse,
    WebhookSettings,
)
from headgate.model.keys import Key, Kind
from headgate.model.objects import Classes, PriorityClass
from headgate.model.pod import Workload
from headgate.model.settings import QuotaSettings, Settings
from headgate.simulator.cluster import installed_objects, lookup_in, our_webhooks

WORKLOADS = "/apis/scheduling.headgate.dev/v1alpha1/namespaces/default/workloads"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def workload(chosen: str = "", shield: str = "") -> Workload:
    key = Key(Kind.WORKLOAD, "default", "train")
    return Workload(key, "u", "1", 0.0, priority_class=chosen, preemption_priority_class=shield)


def classes(*defaults: str, **values: int) -> Classes:
    found = (
        PriorityClass(Key(Kind.PRIORITY_CLASS, "", name), "u", "1", value, is_default=name in defaults)
        for name, value in values.items()
    )
    return Classes.of(found)


ENDLESS = "workloads like this one would preempt each other without end"


@pytest.mark.parametrize(
    "given, known, verdict",
    [
        pytest.param(workload(), classes(), AdmissionAllowed(), id="no class at all"),
        pytest.param(workload("high"), classes(high=1000), AdmissionAllowed(), id="a class that exists"),
        pytest.param(
            workload("high"),
            classes(low=1),
            AdmissionDenied("no PriorityClass with name high was found"),
            id="a class that does not",
        ),
        pytest.param(
            workload("high", "gone"),
            classes(high=1000),
            AdmissionDenied("no PriorityClass with name gone was found"),
            id="a preemption class that does not",
        ),
        pytest.param(workload("system-cluster-critical"), classes(), AdmissionAllowed(), id="a class of the system's"),
        pytest.param(
            workload("low", "high"), classes(low=1, high=9), AdmissionAllowed(), id="better protected than it preempts"
        ),
        pytest.param(workload("a", "b"), classes(a=5, b=5), AdmissionAllowed(), id="as well protected as it preempts"),
        pytest.param(
            workload("high", "low"),
            classes(low=1, high=9),
            AdmissionDenied(
                "the value of preemptionPriorityClassName low (1) is below the value of priorityClassName high (9): "
                + ENDLESS
            ),
            id="less protected than it preempts",
        ),
        pytest.param(
            workload("", "low"),
            classes("normal", low=1, normal=5),
            AdmissionDenied(
                "the value of preemptionPriorityClassName low (1) is below the value of priorityClassName normal (5): "
                + ENDLESS
            ),
            id="less protected than the default class preempts",
        ),
        pytest.param(
            workload("", "low"),
            classes(low=-1),
            AdmissionDenied(
                "the value of preemptionPriorityClassName low (-1) is below the value of a workload without "
                f"priorityClassName (0): {ENDLESS}"
            ),
            id="less protected than no class preempts",
        ),
    ],
)
def test_the_classes_of_a_workload_are_judged(given: Workload, known: Classes, verdict: AdmissionResponse) -> None:
    assert priority_class_response(given, known) == verdict


@pytest.mark.parametrize(
    "given, known, name",
    [
        pytest.param(workload(), classes("normal", normal=5), "normal", id="it gets the default class"),
        pytest.param(workload(), classes("b", "a", a=7, b=5), "b", id="the lowest of several"),
        pytest.param(workload(), classes(normal=5), "", id="none where there is no default"),
        pytest.param(workload("high"), classes("normal", normal=5), "", id="it keeps the class it has"),
    ],
)
def test_a_workload_without_a_class_gets_the_default_one(given: Workload, known: Classes, name: str) -> None:
    assert class_to_fill_in(given, known) == name


def settled(raw: bytes, handler: Callable[[AdmissionRequest], DeferredResponse]) -> Json:
    """The answer of a judge who wants to know nothing."""
    with pytest.raises(StopIteration) as done:
        next(answer(raw, handler))
    response: Json = done.value.value["response"]
    return response


def says_no(request: AdmissionRequest) -> DeferredResponse:
    yield from ()
    return AdmissionDenied("asked")


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b'{"request": {}}', b'{"request": {"object": {}}}', b"\xff"], ids=lambda raw: repr(raw)
)
def test_what_is_no_review_is_no_question(raw: bytes) -> None:
    with pytest.raises(InvalidReview, match="expected an AdmissionReview"):
        next(answer(raw, says_no))


@pytest.mark.parametrize(
    "decoded", [{}, {"spec": {"priorityClassName": 5}}, None], ids=["without a spec", "of wrong types", "nothing"]
)
@pytest.mark.parametrize("webhook", [AdmissionWebhook.DEFAULT_WORKLOAD, AdmissionWebhook.VALIDATE_WORKLOAD])
def test_a_workload_that_cannot_be_read_is_left_to_the_servers_validation(
    webhook: AdmissionWebhook, decoded: Json | None
) -> None:
    resource = {"group": "scheduling.headgate.dev", "resource": "workloads"}
    raw = msgspec.json.encode({"request": {"uid": "u1", "resource": resource, "object": decoded}})
    webhook_settings = WebhookSettings(QuotaSettings(), lambda _shape, _priority: "")
    assert settled(raw, lambda request: HANDLERS[webhook](request, webhook_settings)) == {"uid": "u1", "allowed": True}


class Cluster:
    """A small Kubernetes as every scenario has it."""

    def __init__(self) -> None:
        webhooks = our_webhooks(Settings(), lookup_in(lambda: self.server))
        objects = (*INITIAL_OBJECTS, *installed_objects(Settings()))
        self.server = ApiServer(admission=(*ADMISSION, webhooks), objects=objects)

    def post(self, path: str, value: Json) -> Response:
        return self.server.handle(Request("POST", path, {}, msgspec.json.encode(value)), 1000.0)

    def add_class(self, name: str, value: int, **fields: Any) -> None:
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        assert self.post(CLASSES, {**kind, "metadata": {"name": name}, "value": value, **fields}).code == 201

    def create(self, **spec: Any) -> Response:
        groups = [{"name": "workers", "policy": {"gang": {"minCount": 4}}}]
        kind = {"apiVersion": "scheduling.headgate.dev/v1alpha1", "kind": "Workload"}
        return self.post(WORKLOADS, {**kind, "metadata": {"name": "train"}, "spec": {"podGroups": groups, **spec}})


def test_a_simulated_cluster_knows_workloads_and_completes_them() -> None:
    cluster = Cluster()
    cluster.add_class("normal", 5, globalDefault=True)
    created = cluster.create()
    assert created.code == 201
    assert created.value["spec"] == {
        "podGroups": [{"name": "workers", "policy": {"gang": {"minCount": 4, "preemptionMode": "Pod"}}}],
        "priorityClassName": "normal",
    }


@pytest.mark.parametrize(
    "spec, code, message",
    [
        pytest.param(
            {"priorityClassName": "nope"},
            403,
            'admission webhook "validate.workloads.headgate.dev" denied the request: '
            "no PriorityClass with name nope was found",
            id="an unknown class",
        ),
        pytest.param(
            {"priorityClassName": "high", "preemptionPriorityClassName": "low"},
            403,
            'admission webhook "validate.workloads.headgate.dev" denied the request: the value of '
            f"preemptionPriorityClassName low (1) is below the value of priorityClassName high (9): {ENDLESS}",
            id="endless preemption",
        ),
        pytest.param(
            {"podGroups": []},
            422,
            'Workload.scheduling.headgate.dev "train" is invalid: spec.podGroups: Invalid value: 0: '
            "spec.podGroups in body should have at least 1 items",
            id="no groups: the schema says so, although the class is fine",
        ),
    ],
)
def test_a_simulated_cluster_refuses(spec: Json, code: int, message: str) -> None:
    cluster = Cluster()
    cluster.add_class("high", 9)
    cluster.add_class("low", 1)
    refused = cluster.create(**spec)
    assert (refused.code, refused.value["message"]) == (code, message)


def test_the_manifests_are_complete() -> None:
    assert [one["metadata"]["name"] for one in definitions()] == ["workloads.scheduling.headgate.dev"]
    kinds = [one["kind"] for one in rights()]
    roles = ["ClusterRole", "ClusterRoleBinding"]
    readers = ["ClusterRole", "ClusterRole"]  # of metrics, and of a manager on this cluster
    assert kinds == ["Namespace", "ServiceAccount", *roles, *roles, *roles, *readers, "Role", "RoleBinding"]


def test_every_matter_has_one_who_judges_and_one_who_asks() -> None:
    assert set(HANDLERS) == set(AdmissionWebhook) == {hook.webhook for hook in WEBHOOKS}
    assert len({hook.name for hook in WEBHOOKS}) == len(WEBHOOKS)


@pytest.mark.parametrize(
    "place, client",
    [
        pytest.param(AtUrl("https://10.0.0.5:10271/"), {"url": "https://10.0.0.5:10271{}"}, id="outside the cluster"),
        pytest.param(
            AtService("ns", "it", 8443),
            {"service": {"namespace": "ns", "name": "it", "port": 8443, "path": "{}"}},
            id="behind a Service",
        ),
    ],
)
def test_webhooks_are_asked_where_they_are(place: AtUrl | AtService, client: Json) -> None:
    mutating, validating = webhook_configurations(place)
    for configuration, path in ((mutating, "/default-workload"), (validating, "/validate-workload")):
        found = configuration["webhooks"][0]["clientConfig"]
        assert found == msgspec.json.decode(msgspec.json.encode(client).replace(b"{}", path.encode()))


def test_only_work_that_names_no_queue_is_stored_while_nobody_answers() -> None:
    configurations = webhook_configurations(AtService("ns", "it"))
    hooks = [hook for configuration in configurations for hook in configuration["webhooks"]]
    assert [hook["name"] for hook in hooks if hook["failurePolicy"] == "Ignore"] == [
        "default.jobs-without-queue.headgate.dev",
        "default.pods-without-queue.headgate.dev",
        "default.deployments-without-queue.headgate.dev",
        "default.statefulsets-without-queue.headgate.dev",
        "validate.jobs-without-queue.headgate.dev",
    ]
