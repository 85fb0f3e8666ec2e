"""Create and update, in the order of a real server: prepare, mutate, prepare again, validate, admit, store."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from headgate.apiserver.admission import AdmissionChain, WriteAdmission
from headgate.apiserver.field_errors import IMMUTABLE, FieldError
from headgate.apiserver.field_errors import invalid as invalid_field
from headgate.apiserver.handlers.decoding import FieldValidation, Patch, validate_fields, with_metadata
from headgate.apiserver.kubernetes_types import known_part
from headgate.apiserver.managedfields import FieldTracker, unless_only_times_differ, with_fields, without_fields
from headgate.apiserver.messages import Json
from headgate.apiserver.metadata import (
    Identities,
    counts_generation,
    has_generation,
    new_metadata,
    updated_metadata,
    with_generation,
)
from headgate.apiserver.registry import RequestInfo
from headgate.apiserver.status import (
    ApiError,
    already_exists,
    bad_request,
    conflict,
    invalid,
    not_found,
    unmet_precondition,
)
from headgate.apiserver.storage import Revision, Store, store_or_remove

NAME_TRIES = 8
CONDITIONAL_ONLY = frozenset(
    {
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("coordination.k8s.io", "leases"),
        ("policy", "poddisruptionbudgets"),
    }
)
"""Built-in resources that can only be replaced with a resourceVersion, as all custom ones."""
OTHER_NAMESPACE = "the namespace of the provided object does not match the namespace sent on the request"


class Writer:
    """Creates and updates objects; returns them as stored."""

    def __init__(
        self, store: Store, chain: AdmissionChain, identities: Identities, fields: FieldTracker | None = None
    ) -> None:
        self._store, self._chain, self._identities, self._fields = store, chain, identities, fields

    def create(self, info: RequestInfo, value: Json, entries: list[Json] | None = None) -> Json:
        """Creates the object; `entries` are its managedFields, if they are known."""
        rules, admission = info.served.type.rules, self._chain.admission_of("CREATE", info, None)
        if self._fields is not None:
            value = known_part(value)
        identified = self._with_identity(info, _in_namespace(info, value))
        new = rules.prepare_create(identified)
        if entries is None and self._fields is not None:
            entries = self._fields.created(info, rules.defaulted(identified), value["metadata"].get("managedFields"))
        if admission is not None and info.answers is not None:
            admission.fields = entries
            mutated = _mutate(admission, _as_read(info, _in_namespace(info, value)))
            new = rules.prepare_create(self._with_identity(info, with_metadata(mutated)))
        elif admission is not None:
            given, new = new, _mutate(admission, new)
            if not admission.complete:
                new = rules.prepare_create(_with_updated_metadata(with_metadata(new), given))
        errors = rules.validate_create(new)
        if errors:
            refuse_invalid(info, new, errors)
        if admission is not None:
            admission.validate(new)
        return self._store_new(info, with_fields(new, entries) if entries else new)

    def apply(self, info: RequestInfo, config: Json, *, force: bool) -> Json:
        """Applies a configuration to the stored object, or to its status."""
        assert self._fields is not None, "nothing is applied where managers are not tracked"
        stored = info.served.shown(get_existing(info).value)
        new, entries = self._fields.applied(info, config, stored, force=force)
        return self._update(info, new, stored, entries)

    def create_by_apply(self, info: RequestInfo, config: Json) -> Json:
        """Creates the object of a configuration."""
        assert self._fields is not None, "nothing is applied where managers are not tracked"
        new, entries = self._fields.applied(info, config, None, force=False)
        metadata = with_metadata(new)["metadata"]
        if uid := metadata.get("uid"):
            text = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise conflict(info.served.type, info.name, text)
        refuse_other_name(info, metadata)
        return self.create(structs.replace(info, name=""), with_metadata(new), entries)

    def replace(self, info: RequestInfo, new: Json) -> Json:
        """Replaces the stored object, or its status."""
        old, uid = info.served.shown(get_existing(info).value), new["metadata"].get("uid")
        if uid and uid != old["metadata"]["uid"]:
            raise unmet_precondition(info.served.type, old["metadata"], "uid", uid)
        return self._update(info, new, old)

    def patch(self, info: RequestInfo, patch: Patch, validation: FieldValidation | None) -> Json:
        """Patches the stored object, or its status."""
        old = info.served.shown(get_existing(info).value)
        new = patch(old)
        validate_fields(info, new, validation, is_patched=True)
        return self._update(info, new, old)

    def _update(self, info: RequestInfo, new: Json, stored: Json, entries: list[Json] | None = None) -> Json:
        """Updates the object; stores nothing if nothing changes. `entries` are its managedFields, if they are known."""
        served, rules, of_status = info.served, info.served.type.rules, info.subresource == "status"
        prepare = rules.prepare_status if of_status else rules.prepare_update
        given, old = new, stored
        if self._fields is not None:
            new, old = known_part(new), without_fields(stored)
        new = prepare(_with_preconditions_met(info, new, old), old)
        if entries is None and self._fields is not None:
            entries = self._fields.updated(info, new, stored, given["metadata"].get("managedFields"))
        admission = self._chain.admission_of("UPDATE", info, old)
        if admission is not None:
            admission.fields, admission.old_fields = entries, stored["metadata"].get("managedFields")
            new = _mutate(admission, new)
            if not admission.complete:
                new = prepare(_with_updated_metadata(with_metadata(new), old), old)
        if not of_status and counts_generation(served):
            new = with_generation(new, old)
        errors = rules.validate_status(new, old) if of_status else rules.validate_update(new, old)
        if errors:
            refuse_invalid(info, new, errors)
        if admission is not None:
            admission.validate(new)
        if entries is not None:
            new = with_fields(new, unless_only_times_differ(entries, stored, changed=new != old))
        if info.dry_run or new == stored:
            return new
        return store_or_remove(self._store, served.collection, info.namespace, info.name, new)

    def _with_identity(self, info: RequestInfo, value: Json) -> Json:
        metadata = value["metadata"]
        if metadata.get("resourceVersion"):
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        if not metadata.get("name") and metadata.get("generateName"):
            metadata = {**metadata, "name": self._free_name(info, metadata["generateName"])}
        uid = self._identities.uid(info.served, info.namespace, metadata.get("name") or "")
        metadata = new_metadata(metadata, uid, info.now, counted=has_generation(info.served))
        return {**value, "metadata": metadata}

    def _free_name(self, info: RequestInfo, prefix: str) -> str:
        """A name that no object has: that which webhooks were told, as long as it is free."""
        answers = info.answers
        name = answers.name if answers is not None and answers.name else self._identities.generated_name(prefix)
        for _ in range(NAME_TRIES):
            if info.served.collection.get(info.namespace, name) is None:
                break
            name = self._identities.generated_name(prefix)
        if answers is not None:
            answers.name = name
        return name

    def _store_new(self, info: RequestInfo, value: Json) -> Json:
        name, collection = value["metadata"]["name"], info.served.collection
        if collection.get(info.namespace, name) is not None:
            raise already_exists(info.served.type, name)
        if info.dry_run:
            return value
        self._identities.used(info.served, info.namespace, name)
        return self._store.put(collection, info.namespace, name, value)


def get_existing(info: RequestInfo) -> Revision:
    """The object the request is about; refuses if it does not exist."""
    revision = info.served.collection.get(info.namespace, info.name)
    if revision is None:
        raise not_found(info.served.type, info.name)
    return revision


def refuse_invalid(info: RequestInfo, value: Json, errors: Sequence[FieldError]) -> None:
    if errors:
        resource = info.served.type
        raise invalid(resource.kind, resource.group, value["metadata"].get("name") or "", errors)


def _mutate(admission: WriteAdmission, value: Json) -> Json:
    made = admission.mutate(value)
    assert made is not None, "an admission plugin made nothing of an object"
    return made


def _as_read(info: RequestInfo, value: Json) -> Json:
    """The new object as webhooks see it: with its defaults, and with nothing that the server adds."""
    read = info.served.type.rules.defaulted(value)
    return read if info.served.custom or not info.served.type.has_status else {"status": {}, **read}


def _in_namespace(info: RequestInfo, value: Json) -> Json:
    """The new object with the namespace of the request."""
    metadata = value["metadata"]
    given = metadata.get("namespace") or ""
    if given == info.namespace:
        return value
    if given:
        raise bad_request(OTHER_NAMESPACE)
    return {**value, "metadata": {**metadata, "namespace": info.namespace}}


def _with_preconditions_met(info: RequestInfo, new: Json, old: Json) -> Json:
    """The new object with server-owned fields kept; refuses if it is meant for another object or version."""
    if new["metadata"] is not old["metadata"]:
        refuse_other_name(info, new["metadata"])
        _refuse_other_version(info, new["metadata"], old["metadata"])
        new = _with_updated_metadata(new, old)
    if new.get("kind") != old["kind"] or new.get("apiVersion") != old["apiVersion"]:
        new = {**new, "kind": old["kind"], "apiVersion": old["apiVersion"]}
    return new


def _with_updated_metadata(new: Json, old: Json) -> Json:
    metadata = updated_metadata(new["metadata"], old["metadata"])
    return new if metadata is new["metadata"] else {**new, "metadata": metadata}


def refuse_other_name(info: RequestInfo, metadata: Json) -> None:
    name, namespace = metadata.get("name"), metadata.get("namespace") or info.namespace
    if not name:
        text = f"the name of the object ({info.name} based on URL) was undeterminable: name must be provided"
        raise bad_request(text)
    if name != info.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({info.name})")
    if namespace != info.namespace:
        raise bad_request(OTHER_NAMESPACE)


def _refuse_other_version(info: RequestInfo, metadata: Json, stored: Json) -> None:
    served = info.served
    uid, version = metadata.get("uid"), metadata.get("resourceVersion")
    if version and version != stored["resourceVersion"]:
        raise conflict(served.type, info.name)
    if not version and (served.custom or (served.type.group, served.type.plural) in CONDITIONAL_ONLY):
        wrong = invalid_field("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid(served.type.plural, served.type.group, info.name, [wrong])
    if uid and uid != stored["uid"]:
        errors = [invalid_field("metadata.uid", uid, IMMUTABLE)] * 2  # a real server checks it twice as well
        raise invalid(served.type.kind, served.type.group, info.name, errors)
