"""Which fields a server keeps: known ones that are not empty, quantities in canonical form."""

from __future__ import annotations

from typing import Any

from headgate.apiserver.caches import QUANTITIES, memoized
from headgate.apiserver.messages import Json
from headgate.model.quantity import NANOS, Quantity, parse_quantity

POD_SPEC = frozenset(
    {
        *("activeDeadlineSeconds", "affinity", "automountServiceAccountToken", "containers", "dnsConfig"),
        *("dnsPolicy", "enableServiceLinks", "ephemeralContainers", "hostAliases", "hostIPC", "hostNetwork"),
        *("hostPID", "hostUsers", "hostname", "hostnameOverride", "imagePullSecrets", "initContainers", "nodeName"),
        *("nodeSelector", "os", "overhead", "preemptionPolicy", "priority", "priorityClassName", "readinessGates"),
        *("resourceClaims", "resources", "restartPolicy", "runtimeClassName", "schedulerName", "schedulingGates"),
        *("schedulingGroup", "securityContext", "serviceAccount", "serviceAccountName", "setHostnameAsFQDN"),
        *("shareProcessNamespace", "subdomain", "terminationGracePeriodSeconds", "tolerations"),
        *("topologySpreadConstraints", "volumes", "workloadRef"),
    }
)
CONTAINER = frozenset(
    {
        *("args", "command", "env", "envFrom", "image", "imagePullPolicy", "lifecycle", "livenessProbe", "name"),
        *("ports", "readinessProbe", "resizePolicy", "resources", "restartPolicy", "restartPolicyRules"),
        *("securityContext", "startupProbe", "stdin", "stdinOnce", "terminationMessagePath"),
        *("terminationMessagePolicy", "tty", "volumeDevices", "volumeMounts", "workingDir"),
    }
)
JOB_SPEC = frozenset(
    {
        *("activeDeadlineSeconds", "backoffLimit", "backoffLimitPerIndex", "completionMode", "completions"),
        *("managedBy", "manualSelector", "maxFailedIndexes", "parallelism", "podFailurePolicy"),
        *("podReplacementPolicy", "selector", "successPolicy", "suspend", "template", "ttlSecondsAfterFinished"),
    }
)


def without_unknown(fields: Json, names: frozenset[str]) -> Json:
    """The fields with these names only; the identical mapping if there are no others."""
    if fields.keys() <= names:
        return fields
    return {name: value for name, value in fields.items() if name in names}


def without_empty(fields: Json) -> Json:
    """The fields without nulls, empty strings, lists and objects; the identical mapping if there are none."""
    if all(fields.values()):
        return fields
    kept = {name: value for name, value in fields.items() if not _is_empty(value) and value != {}}
    return fields if len(kept) == len(fields) else kept


def without_empty_lists(fields: Json) -> Json:
    """The same, but empty objects are kept, because their presence can mean something."""
    if all(fields.values()):
        return fields
    kept = {name: value for name, value in fields.items() if not _is_empty(value)}
    return fields if len(kept) == len(fields) else kept


def with_metadata_trimmed(value: Json) -> Json:
    metadata = without_empty(value["metadata"])
    return value if metadata is value["metadata"] else {**value, "metadata": metadata}


def _is_empty(value: Any) -> bool:
    return value is None or value in ("", [])


_MILLI = NANOS // 1000


cached_quantity = memoized(QUANTITIES)(parse_quantity)


@memoized(QUANTITIES)
def _canonical_quantity(text: str) -> str:
    """The canonical form, rounded up to thousandths as a real server does."""
    quantity = cached_quantity(text)
    if quantity.nanos % _MILLI:
        quantity = Quantity(-(-quantity.nanos // _MILLI) * _MILLI, quantity.notation)
    return str(quantity)


def canonical_quantities(amounts: Json) -> Json:
    """The quantities in canonical form; the identical mapping if they all are. Raises InvalidQuantity."""
    canonical = {
        name: _canonical_quantity(amount if isinstance(amount, str) else str(amount))
        for name, amount in amounts.items()
    }
    return amounts if canonical == amounts else canonical


def with_canonical_quantities(owner: Json, fields: tuple[str, ...]) -> Json:
    """The owner with these fields, where set, in canonical form; the identical owner if nothing changes."""
    changed = {
        field: canonical
        for field in fields
        if owner.get(field) and (canonical := canonical_quantities(owner[field])) is not owner[field]
    }
    return {**owner, **changed} if changed else owner
