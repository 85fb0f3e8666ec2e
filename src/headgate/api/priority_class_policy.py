"""The admission policy that keeps priorities of the system, and boosts of priorities, to those who may have them.

A ResourceQuota can limit who creates pods of a `system-*` PriorityClass. The pods of a Workload or PodGroup have its
priority whatever their own class is, so a class named there would pass by that quota.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.api.kinds import RESOURCES
from headgate.model.keys import Kind
from headgate.model.kueue_names import QUEUE_NAME
from headgate.model.queues import PRIORITY_BOOST
from headgate.model.settings import NAMESPACE_NAME

POLICY = "headgate-priorities"
SYSTEM_CLASS_NAMESPACES = ("kube-system",)
"""Where `system-*` classes may be used unless `headgate install` is told otherwise."""
BOOST_VERB = "boost"
"""The verb on Workloads of Kueue that lets a user raise a priority by the annotation."""
HIGHEST_PRIORITY = 1_000_000_000  # that users may define; what is above belongs to the system

_SCHEDULING = (Kind.WORKLOAD, Kind.POD_GROUP, Kind.VOLCANO_POD_GROUP)
_QUEUES = (Kind.KUEUE_WORKLOAD, Kind.JOB)

Manifest = dict[str, Any]


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
                "matchConstraints": {"resourceRules": [_rule(kind) for kind in kinds]},
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


def _rule(kind: Kind) -> Manifest:
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
