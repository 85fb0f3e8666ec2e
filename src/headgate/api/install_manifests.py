"""The objects `headgate install` applies: CRDs, RBAC, webhook configurations, and an admission policy.

The policy keeps priorities of the system, and boosts of priorities, to those who may have them. A ResourceQuota can
limit who creates pods of a `system-*` PriorityClass. The pods of a Workload or PodGroup have its priority whatever
their own class is, so a class named there would pass by that quota.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from functools import lru_cache
from importlib.resources import files
from typing import Any, assert_never

import msgspec
from msgspec import Struct

from headgate.api.kinds import RESOURCES
from headgate.api.yaml_documents import read_yaml_documents
from headgate.model.admission import AdmissionWebhook
from headgate.model.keys import Kind
from headgate.model.kueue_names import MANAGED, QUEUE_NAME
from headgate.model.queues import PRIORITY_BOOST
from headgate.model.settings import DEFAULT_SCHEDULER_NAME, NAMESPACE_NAME, SYSTEM_NAMESPACES
from headgate.model.volcano import QUEUE_GATES

ASKING_TIMEOUT = 5  # seconds an API server waits for our answer
OWN_ACCOUNT = "system:serviceaccount:headgate-system:headgate"
"""Our own account, whose writes are not reviewed."""

Manifest = dict[str, Any]

_CREATE, _WRITE, _ANY = ("CREATE",), ("CREATE", "UPDATE"), ("CREATE", "UPDATE", "DELETE")

POLICY = "headgate-priorities"
SYSTEM_CLASS_NAMESPACES = ("kube-system",)
"""Where `system-*` classes may be used unless `headgate install` is told otherwise."""
BOOST_VERB = "boost"
"""The verb on Workloads of Kueue that lets a user raise a priority by the annotation."""
HIGHEST_PRIORITY = 1_000_000_000  # that users may define; what is above belongs to the system
_SCHEDULING = (Kind.WORKLOAD, Kind.POD_GROUP, Kind.VOLCANO_POD_GROUP)
_QUEUES = (Kind.KUEUE_WORKLOAD, Kind.JOB)


class AtUrl(Struct, frozen=True):
    """Webhooks outside the cluster: https://host:port, and perhaps a path."""

    url: str


class AtService(Struct, frozen=True):
    """Webhooks behind a Service of the cluster."""

    namespace: str
    name: str
    port: int = 443


WebhookPlace = AtUrl | AtService


class Labelled(Struct, frozen=True):
    """Of the objects of a kind, those that have one label and not another; `called` so in the webhook's name."""

    has: str = ""
    lacks: str = ""
    called: str = ""

    @property
    def selector(self) -> Manifest:
        """Never with an empty list: an API server counts each apply of one as a change."""
        wanted = ((self.has, "Exists"), (self.lacks, "DoesNotExist"))
        expressions = [{"key": key, "operator": operator} for key, operator in wanted if key]
        return {"matchExpressions": expressions} if expressions else {}


QUEUED = Labelled(has=QUEUE_NAME)
OTHERS = Labelled(lacks=QUEUE_NAME, called="-without-queue")
MANAGED_OTHERS = Labelled(has=MANAGED, lacks=QUEUE_NAME, called="-without-queue")
ANNOTATED = Labelled(called="-gated-by-queue")


class WebhookCondition(Struct, frozen=True):
    """A CEL expression that holds for the requests we are asked about."""

    name: str
    expression: str


class Part(Enum):
    """What a webhook is installed with."""

    ALWAYS = auto()
    QUEUES = auto()  # of Kueue
    VOLCANO = auto()


class WebhookResource(Struct, frozen=True):
    """Where the objects are served that we are asked about."""

    group: str
    version: str
    plural: str
    namespaced: bool = True

    @classmethod
    def of(cls, kind: Kind) -> WebhookResource:
        resource = RESOURCES[kind]
        return cls(resource.group, resource.version, resource.plural, resource.namespaced)


_DOMAINS = {"kueue.x-k8s.io": "kueue.headgate.dev", "scheduling.volcano.sh": "volcano.headgate.dev"}


class Webhook(Struct, frozen=True):
    """One reason to ask. `optional`: while nobody answers, the object is stored all the same."""

    webhook: AdmissionWebhook
    resource: WebhookResource
    operations: tuple[str, ...]
    status: bool = False  # changes of the status too
    among: Labelled | None = None
    optional: bool = False
    part: Part = Part.QUEUES

    @property
    def name(self) -> str:
        verb, called = self.webhook.partition("-")[0], self.among.called if self.among else ""
        return f"{verb}.{self.resource.plural}{called}.{_DOMAINS.get(self.resource.group, 'headgate.dev')}"

    @property
    def path(self) -> str:
        return f"/{self.webhook}"


_WORKLOAD, _KUEUE_WORKLOAD = WebhookResource.of(Kind.WORKLOAD), WebhookResource.of(Kind.KUEUE_WORKLOAD)
_CLUSTER_QUEUE, _COHORT, _RESOURCE_FLAVOR = map(
    WebhookResource.of, (Kind.CLUSTER_QUEUE, Kind.COHORT, Kind.RESOURCE_FLAVOR)
)
_JOB, _POD = WebhookResource.of(Kind.JOB), WebhookResource.of(Kind.POD)
_VOLCANO_QUEUE, _VOLCANO_POD_GROUP = map(WebhookResource.of, (Kind.VOLCANO_QUEUE, Kind.VOLCANO_POD_GROUP))
_DEPLOYMENT, _STATEFUL_SET = WebhookResource.of(Kind.DEPLOYMENT), WebhookResource.of(Kind.STATEFUL_SET)

_ASKS_FOR_GATE = (
    "has(object.metadata.annotations) && ("
    + " || ".join(
        f"('{name}' in object.metadata.annotations && object.metadata.annotations['{name}'] == 'true')"
        for name in sorted(QUEUE_GATES)
    )
    + ")"
)

WEBHOOKS: tuple[Webhook, ...] = (
    Webhook(AdmissionWebhook.DEFAULT_WORKLOAD, _WORKLOAD, _CREATE, part=Part.ALWAYS),  # its classes cannot be changed
    Webhook(AdmissionWebhook.DEFAULT_CLUSTER_QUEUE, _CLUSTER_QUEUE, _CREATE),
    Webhook(AdmissionWebhook.DEFAULT_RESOURCE_FLAVOR, _RESOURCE_FLAVOR, _CREATE),
    Webhook(AdmissionWebhook.DEFAULT_QUEUED_WORKLOAD, _KUEUE_WORKLOAD, _CREATE),
    Webhook(AdmissionWebhook.DEFAULT_JOB, _JOB, _CREATE, among=QUEUED),
    Webhook(AdmissionWebhook.DEFAULT_JOB, _JOB, _CREATE, among=OTHERS, optional=True),
    Webhook(AdmissionWebhook.DEFAULT_POD, _POD, _CREATE, among=QUEUED),
    Webhook(AdmissionWebhook.DEFAULT_POD, _POD, _CREATE, among=OTHERS, optional=True),
    Webhook(AdmissionWebhook.DEFAULT_DEPLOYMENT, _DEPLOYMENT, _WRITE, among=QUEUED),
    Webhook(AdmissionWebhook.DEFAULT_DEPLOYMENT, _DEPLOYMENT, _WRITE, among=OTHERS, optional=True),
    Webhook(AdmissionWebhook.DEFAULT_STATEFUL_SET, _STATEFUL_SET, _WRITE, among=QUEUED),
    Webhook(AdmissionWebhook.DEFAULT_STATEFUL_SET, _STATEFUL_SET, _WRITE, among=OTHERS, optional=True),
    Webhook(
        AdmissionWebhook.DEFAULT_QUEUE_GATE,
        _POD,
        _CREATE,
        among=ANNOTATED,
        part=Part.ALWAYS,
    ),
    Webhook(AdmissionWebhook.DEFAULT_VOLCANO_QUEUE, _VOLCANO_QUEUE, _CREATE, part=Part.VOLCANO),
    Webhook(AdmissionWebhook.DEFAULT_VOLCANO_POD_GROUP, _VOLCANO_POD_GROUP, _CREATE, part=Part.VOLCANO),
    Webhook(AdmissionWebhook.VALIDATE_WORKLOAD, _WORKLOAD, _CREATE, part=Part.ALWAYS),
    Webhook(AdmissionWebhook.VALIDATE_CLUSTER_QUEUE, _CLUSTER_QUEUE, _WRITE),
    Webhook(AdmissionWebhook.VALIDATE_COHORT, _COHORT, _WRITE),
    Webhook(AdmissionWebhook.VALIDATE_RESOURCE_FLAVOR, _RESOURCE_FLAVOR, _WRITE),
    Webhook(AdmissionWebhook.VALIDATE_QUEUED_WORKLOAD, _KUEUE_WORKLOAD, _WRITE, status=True),
    Webhook(AdmissionWebhook.VALIDATE_JOB, _JOB, _WRITE, among=QUEUED),
    Webhook(AdmissionWebhook.VALIDATE_JOB, _JOB, _WRITE, among=OTHERS, optional=True),
    Webhook(AdmissionWebhook.VALIDATE_POD, _POD, _WRITE, among=QUEUED),
    Webhook(AdmissionWebhook.VALIDATE_POD, _POD, _WRITE, among=MANAGED_OTHERS),
    Webhook(AdmissionWebhook.VALIDATE_DEPLOYMENT, _DEPLOYMENT, _WRITE, among=QUEUED),
    Webhook(AdmissionWebhook.VALIDATE_STATEFUL_SET, _STATEFUL_SET, _WRITE, among=QUEUED),
    Webhook(AdmissionWebhook.VALIDATE_VOLCANO_QUEUE, _VOLCANO_QUEUE, _ANY, part=Part.VOLCANO),
    Webhook(AdmissionWebhook.VALIDATE_VOLCANO_POD_GROUP, _VOLCANO_POD_GROUP, _WRITE, part=Part.VOLCANO),
)
"""In the order they are called. Those for objects without a queue name are optional: an outage never blocks them."""


def webhook_configurations(
    place: WebhookPlace,
    *,
    queues: bool = True,
    volcano: bool = False,
    schedulers: Sequence[str] = (DEFAULT_SCHEDULER_NAME,),
) -> tuple[Manifest, Manifest]:
    """What makes an API server ask us that finds us at this place.

    About our own kind and pods of these `schedulers` that ask for the queue-allocation gate in any case; about the
    kinds of Kueue and what waits for its quota with `queues`, about those of Volcano with `volcano`.
    """
    parts = {Part.ALWAYS} | ({Part.QUEUES} if queues else set()) | ({Part.VOLCANO} if volcano else set())
    hooks = [hook for hook in WEBHOOKS if hook.part in parts]
    entries = [(hook.webhook.is_mutating, _entry(hook, place, schedulers)) for hook in hooks]
    return (
        _configuration("MutatingWebhookConfiguration", [entry for is_mutating, entry in entries if is_mutating]),
        _configuration("ValidatingWebhookConfiguration", [entry for is_mutating, entry in entries if not is_mutating]),
    )


def _configuration(kind: str, entries: list[Manifest]) -> Manifest:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": CONFIGURATION},
        "webhooks": entries,
    }


def _entry(hook: Webhook, place: WebhookPlace, schedulers: Sequence[str]) -> Manifest:
    return {
        "name": hook.name,
        "clientConfig": _client_config(place, hook.path),
        "rules": [_rule(hook)],
        **_selectors(hook),
        "matchConditions": [
            {"name": each.name, "expression": each.expression} for each in _match_conditions(hook, schedulers)
        ],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore" if hook.optional else "Fail",
        "timeoutSeconds": ASKING_TIMEOUT,
    }


def _match_conditions(hook: Webhook, schedulers: Sequence[str]) -> Iterator[WebhookCondition]:
    yield WebhookCondition("not-our-own", f"request.userInfo.username != '{OWN_ACCOUNT}'")
    if hook.among is ANNOTATED:
        yield WebhookCondition("asks-for-the-gate", _ASKS_FOR_GATE)
        named = msgspec.json.encode(sorted(schedulers)).decode()  # a list of strings is the same in CEL
        yield WebhookCondition("of-our-schedulers", f"object.spec.schedulerName in {named}")


def _rule(hook: Webhook) -> Manifest:
    resource = hook.resource
    return {
        "apiGroups": [resource.group],
        "apiVersions": [resource.version],
        "resources": [resource.plural, f"{resource.plural}/status"] if hook.status else [resource.plural],
        "operations": list(hook.operations),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
    }


def _selectors(hook: Webhook) -> Manifest:
    """Excludes the system namespaces."""
    if hook.among is None:
        return {}
    elsewhere = {"key": NAMESPACE_NAME, "operator": "NotIn", "values": list(SYSTEM_NAMESPACES)}
    return {"namespaceSelector": {"matchExpressions": [elsewhere]}, "objectSelector": hook.among.selector}


def _client_config(place: WebhookPlace, path: str) -> Manifest:
    match place:
        case AtUrl(url):
            return {"url": url.rstrip("/") + path}
        case AtService(namespace, name, port):
            return {"service": {"namespace": namespace, "name": name, "port": port, "path": path}}
        case _:
            assert_never(place)


CONFIGURATION = "headgate"
"""The name of both webhook configurations."""
QUOTA_ROLE = "headgate-quota"
"""The name of the rights that only queues need."""
MANAGER_ROLE = "headgate-manager"
"""The name of the rights that the manager of a fleet needs on worker clusters."""
OURS: Mapping[str, str] = {"app.kubernetes.io/managed-by": "headgate"}
"""The label of those of Kueue's and Volcano's definitions that came from us."""
_OF_KUEUE = (
    "resourceflavors",
    "cohorts",
    "clusterqueues",
    "localqueues",
    "workloadpriorityclasses",
    "admissionchecks",
    "multikueueconfigs",
    "multikueueclusters",
    "workloads",
)
_OF_VOLCANO = ("queues", "podgroups")


def definitions() -> tuple[Manifest, ...]:
    """The CustomResourceDefinitions of our kinds."""
    return tuple(document for name in ("workloads.yaml",) for document in _documents("crds", name))


def queue_definitions() -> tuple[Manifest, ...]:
    """The CustomResourceDefinitions of Kueue's kinds, as far as we serve them, labelled as ours."""
    return _labelled(document for name in _OF_KUEUE for document in _documents("crds", f"kueue-{name}.yaml"))


def volcano_definitions() -> tuple[Manifest, ...]:
    """The CustomResourceDefinitions of Volcano's kinds, as far as we serve them, labelled as ours."""
    return _labelled(document for name in _OF_VOLCANO for document in _documents("crds", f"volcano-{name}.yaml"))


def _labelled(found: Iterable[Manifest]) -> tuple[Manifest, ...]:
    return tuple({**one, "metadata": {**one["metadata"], "labels": dict(OURS)}} for one in found)


def rights(*, queues: bool = True) -> tuple[Manifest, ...]:
    """The service account our process runs as with the rights it needs, and no more.

    Besides roles for others: who scrapes it, and the manager of a fleet whose worker this cluster is. Without `queues`,
    only the rights to schedule.
    """
    found = _documents("rights", "rbac.yaml")
    return tuple(one for one in found if queues or one["metadata"]["name"] not in (QUOTA_ROLE, MANAGER_ROLE))


def fleet_rights() -> tuple[Manifest, ...]:
    """The rights of the role fleet, which only a manager cluster needs: among them to read Secrets of our namespace."""
    return _documents("rights", "fleet.yaml")


def tenant_rights(*, queues: bool = True) -> tuple[Manifest, ...]:
    """What tenants may see and do in their namespaces; without `queues`, about our own kind only."""
    found = _documents("rights", "tenants.yaml")
    return found if queues else tuple(_without_queues(found))


def _without_queues(roles: Iterable[Manifest]) -> Iterator[Manifest]:
    for role in roles:
        rules = [rule for rule in role["rules"] if rule["apiGroups"] == [_WORKLOAD.group]]
        if rules:
            yield {**role, "rules": rules}


@lru_cache
def _documents(folder: str, name: str) -> tuple[Manifest, ...]:
    return tuple(read_yaml_documents((files("headgate.api") / folder / name).read_bytes()))


def priority_policy(
    own_account: str, namespaces: Sequence[str] = SYSTEM_CLASS_NAMESPACES, *, queues: bool = True
) -> tuple[Manifest, Manifest]:
    """The policy and its binding, which lets the `namespaces` be; without `queues`, about pod groups only."""
    kinds = (*_SCHEDULING, *_QUEUES) if queues else _SCHEDULING
    return (
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": POLICY},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [_rule_for(kind) for kind in kinds]},
                "matchConditions": [
                    {"name": "not-our-own", "expression": f"request.userInfo.username != '{own_account}'"}
                ],
                "variables": _VARIABLES,
                "validations": _VALIDATIONS,
            },
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": POLICY},
            "spec": {
                "policyName": POLICY,
                "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": {"matchExpressions": [_elsewhere(namespaces)]}},
            },
        },
    )


def _rule_for(kind: Kind) -> Manifest:
    resource = RESOURCES[kind]
    return {
        "apiGroups": [resource.group],
        "apiVersions": ["*"],
        "resources": [resource.plural],
        "operations": ["CREATE", "UPDATE"],
        "scope": "Namespaced",
    }


def _elsewhere(namespaces: Sequence[str]) -> Manifest:
    return {"key": NAMESPACE_NAME, "operator": "NotIn", "values": list(namespaces)}


def _classes_of(thing: str) -> str:
    """The classes an object names. A Job is asked only if it waits in a queue: otherwise its pods are asked."""
    labels = f"{thing}.?metadata.?labels[?'{QUEUE_NAME}'].hasValue()"
    reference = f"{thing}.?spec.?priorityClassRef"
    return (
        f"[{thing}.?spec.?priorityClassName.orValue(''), {thing}.?spec.?preemptionPriorityClassName.orValue(''),"
        f" {reference}.?kind.orValue('') == 'PriorityClass' ? {reference}.?name.orValue('') : '',"
        f" {labels} ? {thing}.?spec.?template.?spec.?priorityClassName.orValue('') : '']"
    )


def _boost_of(thing: str) -> str:
    return f"{thing}.?metadata.?annotations[?'{PRIORITY_BOOST}'].orValue('')"


_VARIABLES: list[Manifest] = [
    {"name": "classes", "expression": _classes_of("object")},
    {"name": "priority", "expression": "object.?spec.?priority.orValue(0)"},
    {"name": "boost", "expression": _boost_of("object")},
    {"name": "isBoosted", "expression": "variables.boost.matches('^[+]?0*[1-9][0-9]*$')"},
]

_VALIDATIONS: list[Manifest] = [
    {
        "expression": "variables.classes.all(one, !one.startsWith('system-')) ||"
        f" (oldObject != null && variables.classes == {_classes_of('oldObject')})",
        "messageExpression": "'PriorityClass ' + variables.classes.filter(one, one.startsWith('system-'))[0] + ' may"
        " not be used in namespace ' + request.namespace + ': its pods would pass by the quota on pods of that class'",
        "reason": "Forbidden",
    },
    {
        "expression": f"variables.priority <= {HIGHEST_PRIORITY} ||"
        " (oldObject != null && variables.priority == oldObject.?spec.?priority.orValue(0))",
        "message": f"spec.priority: may not be above {HIGHEST_PRIORITY}, which belongs to the system",
        "reason": "Forbidden",
    },
    {
        "expression": f"!variables.isBoosted || (oldObject != null && variables.boost == {_boost_of('oldObject')}) ||"
        " authorizer.group('kueue.x-k8s.io').resource('workloads').namespace(request.namespace)"
        f".check('{BOOST_VERB}').allowed()",
        "message": f"metadata.annotations[{PRIORITY_BOOST}]: only who may {BOOST_VERB} workloads.kueue.x-k8s.io raises"
        " a priority",
        "reason": "Forbidden",
    },
]
