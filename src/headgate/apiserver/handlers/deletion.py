"""Deletion: preconditions, grace periods, finalizers and propagation policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct, structs

from headgate.apiserver.admission import AdmissionChain
from headgate.apiserver.field_errors import invalid as invalid_field
from headgate.apiserver.field_errors import not_supported
from headgate.apiserver.handlers.writing import get_existing
from headgate.apiserver.messages import Json
from headgate.apiserver.metadata import seconds_of, timestamp
from headgate.apiserver.registry import RequestInfo
from headgate.apiserver.status import ApiError, bad_request, conflict, deletion_conflict, forbidden, invalid
from headgate.apiserver.storage import Store, is_namespaces, is_pods, store_or_remove
from headgate.apiserver.strategy import ResourceType
from headgate.apiserver.webhook_calls import CallsNeeded, WebhookAnswers

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
POLICY_FINALIZER: Mapping[str, str] = {"Orphan": ORPHAN, "Foreground": FOREGROUND, "Background": ""}
"""The finalizer that represents a propagation policy while the deletion waits."""
TERMINAL_PHASES = ("Succeeded", "Failed")
UNDELETABLE = ("default", "kube-system", "kube-public")
PURGING = (
    "The system is ensuring all content is removed from this namespace.  "
    "Upon completion, this namespace will automatically be purged by the system."
)


class Preconditions(Struct, frozen=True, rename="camel", omit_defaults=True):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(Struct, frozen=True, rename="camel", omit_defaults=True):
    """How to delete; without a policy, Background."""

    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    preconditions: Preconditions | None = None
    dry_run: list[str] | None = None

    @property
    def policy(self) -> str:
        if self.orphan_dependents is None:
            return self.propagation_policy or ""
        return "Orphan" if self.orphan_dependents else "Background"


_decoder = msgspec.json.Decoder(DeleteOptions)


def decode_options(body: bytes, query: Mapping[str, str]) -> DeleteOptions:
    """The options in the body, or without one, in the query."""
    try:
        options = _decoder.decode(body) if body else _from_query(query)
    except msgspec.DecodeError as error:
        raise bad_request(f"DeleteOptions: {error}") from None
    if options.orphan_dependents is not None and options.propagation_policy is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        wrong = invalid_field("propagationPolicy", options.propagation_policy, detail)
        raise invalid("DeleteOptions", "meta.k8s.io", "", [wrong])
    if options.policy and options.policy not in POLICY_FINALIZER:
        supported = ("Foreground", "Background", "Orphan", "nil")
        wrong = not_supported("propagationPolicy", options.policy, supported)
        raise invalid("DeleteOptions", "meta.k8s.io", "", [wrong])
    return options


def _from_query(query: Mapping[str, str]) -> DeleteOptions:
    known: dict[str, Any] = {
        name: query[name] for name in ("gracePeriodSeconds", "propagationPolicy", "orphanDependents") if name in query
    }
    return msgspec.convert(known, DeleteOptions, strict=False)


class DeferredDeletion(Struct, frozen=True):
    """A deletion by a controller about which webhooks have to be asked over HTTPS first."""

    info: RequestInfo
    options: DeleteOptions


class Deleter:
    """Deletes objects, in the order of a real server: preconditions, admission, then the deletion itself."""

    def __init__(self, store: Store, chain: AdmissionChain) -> None:
        self._store, self._chain = store, chain
        self.deferred: list[DeferredDeletion] | None = None  # for whoever calls webhooks; None: nobody does

    def delete(self, info: RequestInfo, options: DeleteOptions) -> Json:
        """Deletes the object or begins to; returns its last state. It is removed if the store no longer has it."""
        self.admit(info, options)
        return self.remove(info, options)

    def collect(self, info: RequestInfo, options: DeleteOptions) -> None:
        """Deletes an object for a controller. It stays if admission keeps it; a later change asks again."""
        if self.deferred is not None:
            info = structs.replace(info, answers=WebhookAnswers({}))
        try:
            self.delete(info, options)
        except CallsNeeded:
            assert self.deferred is not None, "nothing is called where nobody waits for answers"
            self.deferred.append(DeferredDeletion(info, options))
        except ApiError:
            return

    def admit(self, info: RequestInfo, options: DeleteOptions) -> None:
        """Refuses a deletion whose preconditions are not met, or that admission does not allow."""
        value = get_existing(info).value
        _refuse_unmet(info.served.type, value["metadata"], options.preconditions or Preconditions())
        admission = self._chain.admission_of("DELETE", info, value)
        if admission is not None:
            admission.mutate(None)
            admission.validate(None)

    def remove(self, info: RequestInfo, options: DeleteOptions) -> Json:
        """The same as `delete`, without admission."""
        value = get_existing(info).value
        _refuse_unmet(info.served.type, value["metadata"], options.preconditions or Preconditions())
        if is_namespaces(info.served.collection):
            _refuse_namespace(info, value)
        new = _deleted(info, value, options)
        if info.dry_run or options.dry_run or new is None:
            return new or value
        return store_or_remove(self._store, info.served.collection, info.namespace, info.name, new)


def _refuse_unmet(resource: ResourceType, metadata: Json, asked: Preconditions) -> None:
    uid, version = metadata["uid"], metadata["resourceVersion"]
    if asked.uid not in (None, uid):
        text = f"the UID in the precondition ({asked.uid}) does not match the UID in record ({uid})."
        why = f"{text} The object might have been deleted and then recreated"
        raise deletion_conflict(resource, metadata["name"], why)
    if asked.resource_version not in (None, version):
        text = f"the ResourceVersion in the precondition ({asked.resource_version}) does not match"
        why = f"{text} the ResourceVersion in record ({version}). The object might have been modified"
        raise deletion_conflict(resource, metadata["name"], why)


def _refuse_namespace(info: RequestInfo, value: Json) -> None:
    if info.name in UNDELETABLE:
        raise forbidden(info.served.type, info.name, "this namespace may not be deleted")
    if value["metadata"].get("deletionTimestamp") is not None:
        raise conflict(info.served.type, info.name, PURGING)


def _deleted(info: RequestInfo, value: Json, options: DeleteOptions) -> Json | None:
    """The object with its deletion timestamp; None if it is being deleted already and nothing changes."""
    metadata = _with_policy(value["metadata"], options.policy)
    grace = _pod_grace(value, options.grace_period_seconds) if is_pods(info.served.collection) else 0
    if metadata.get("deletionTimestamp") is None:
        return _with_deletion_timestamp(info, value, metadata, grace)
    shorter = _shortened(metadata, grace)
    if shorter is value["metadata"]:
        return None
    return {**value, "metadata": shorter}


def _with_deletion_timestamp(info: RequestInfo, value: Json, metadata: Json, grace: int) -> Json:
    marks: Json = {"deletionTimestamp": timestamp(int(info.now) + grace)}
    if is_namespaces(info.served.collection):
        return _terminating(value, {**metadata, **marks})
    marks["deletionGracePeriodSeconds"] = grace
    if "generation" in metadata:
        marks["generation"] = metadata["generation"] + 1
    return {**value, "metadata": {**metadata, **marks}}


def _terminating(namespace: Json, metadata: Json) -> Json:
    spec = namespace.get("spec") or {}
    return {
        **namespace,
        "metadata": metadata,
        "spec": {**spec, "finalizers": spec.get("finalizers") or ["kubernetes"]},
        "status": {**(namespace.get("status") or {}), "phase": "Terminating"},
    }


def _with_policy(metadata: Json, policy: str) -> Json:
    """Metadata with the finalizer of the policy and without that of another; unchanged without a policy."""
    if not policy:
        return metadata
    wanted, present = POLICY_FINALIZER[policy], metadata.get("finalizers") or []
    kept = [name for name in present if name not in (ORPHAN, FOREGROUND) or name == wanted]
    if wanted and wanted not in kept:
        kept.append(wanted)
    return metadata if kept == present else {**metadata, "finalizers": kept}


def _shortened(metadata: Json, grace: int) -> Json:
    """Metadata with the grace period reduced to `grace`; a longer one changes nothing."""
    held = metadata.get("deletionGracePeriodSeconds") or 0
    if grace >= held:
        return metadata
    begun = seconds_of(metadata["deletionTimestamp"]) - held
    return {**metadata, "deletionTimestamp": timestamp(begun + grace), "deletionGracePeriodSeconds": grace}


def _pod_grace(pod: Json, asked: int | None) -> int:
    """The grace period in seconds; zero for a pod that is unbound or has terminated."""
    spec = pod.get("spec") or {}
    if not spec.get("nodeName") or (pod.get("status") or {}).get("phase") in TERMINAL_PHASES:
        return 0
    grace = spec.get("terminationGracePeriodSeconds", 30) if asked is None else asked
    return grace if grace >= 0 else 1
