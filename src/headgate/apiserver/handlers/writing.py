"""Create and update, in the order of a real server: prepare, mutate, prepare again, validate, admit, store."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.apiserver.admission import AdmissionChain, WriteAdmission
from headgate.apiserver.field_errors import IMMUTABLE, FieldError
from headgate.apiserver.field_errors import invalid as invalid_field
from headgate.apiserver.handlers.decoding import Patch, with_metadata
from headgate.apiserver.messages import Json
from headgate.apiserver.metadata import Identities, born, carried, counted_up, counts_generation, has_generation
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
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("coordination.k8s.io", "leases"),
        ("policy", "poddisruptionbudgets"),
    }
)
"""Built-in resources that can only be replaced with the resourceVersion at hand; so can all custom ones."""
OTHER_NAMESPACE = "the namespace of the provided object does not match the namespace sent on the request"


class Writer:
    """Creates and changes objects; what it returns is the object as stored."""

    def __init__(self, store: Store, chain: AdmissionChain, identities: Identities) -> None:
        self._store, self._chain, self._identities = store, chain, identities

    def create(self, errand: RequestInfo, value: Json) -> Json:
        rules, passage = errand.served.type.rules, self._chain.passage("CREATE", errand, None)
        new = rules.prepare_create(self._born(errand, _in_namespace(errand, value)))
        if passage is not None:
            given, new = new, _mutate(passage, new)
            if not passage.complete:
                new = rules.prepare_create(_with_carried(with_metadata(new), given))
        refuse_invalid(errand, new, rules.validate_create(new))
        if passage is not None:
            passage.validate(new)
        return self._store_new(errand, new)

    def replace(self, errand: RequestInfo, new: Json) -> Json:
        """Put the object in the place of the stored one, or its status in the place of that."""
        old, uid = errand.served.shown(get_existing(errand).value), new["metadata"].get("uid")
        if uid and uid != old["metadata"]["uid"]:
            raise unmet_precondition(errand.served.type, old["metadata"], "uid", uid)
        return self._update(errand, new, old)

    def patch(self, errand: RequestInfo, transform: Patch) -> Json:
        """Change the stored object, or its status."""
        old = errand.served.shown(get_existing(errand).value)
        return self._update(errand, transform(old), old)

    def _update(self, errand: RequestInfo, new: Json, old: Json) -> Json:
        """A change that changes nothing leaves no trace."""
        served, rules, of_status = errand.served, errand.served.type.rules, errand.subresource == "status"
        prepare = rules.prepare_status if of_status else rules.prepare_update
        new = prepare(_with_preconditions_met(errand, new, old), old)
        passage = self._chain.passage("UPDATE", errand, old)
        if passage is not None:
            new = _mutate(passage, new)
            if not passage.complete:
                new = prepare(_with_carried(with_metadata(new), old), old)
        if not of_status and counts_generation(served):
            new = counted_up(new, old)
        refuse_invalid(errand, new, rules.validate_status(new, old) if of_status else rules.validate_update(new, old))
        if passage is not None:
            passage.validate(new)
        if errand.dry_run or new == old:
            return new
        return store_or_remove(self._store, served.collection, errand.namespace, errand.name, new)

    def _born(self, errand: RequestInfo, value: Json) -> Json:
        metadata = value["metadata"]
        if metadata.get("resourceVersion"):
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        if not metadata.get("name") and metadata.get("generateName"):
            metadata = {**metadata, "name": self._free_name(errand, metadata["generateName"])}
        uid = self._identities.uid(errand.served, errand.namespace, metadata.get("name") or "")
        metadata = born(metadata, uid, errand.now, counted=has_generation(errand.served))
        return {**value, "metadata": metadata}

    def _free_name(self, errand: RequestInfo, prefix: str) -> str:
        name = self._identities.generated_name(prefix)
        for _ in range(NAME_TRIES):
            if errand.served.collection.get(errand.namespace, name) is None:
                break
            name = self._identities.generated_name(prefix)
        return name

    def _store_new(self, errand: RequestInfo, value: Json) -> Json:
        name, collection = value["metadata"]["name"], errand.served.collection
        if collection.get(errand.namespace, name) is not None:
            raise already_exists(errand.served.type, name)
        if errand.dry_run:
            return value
        self._identities.used(errand.served, errand.namespace, name)
        return self._store.put(collection, errand.namespace, name, value)


def get_existing(errand: RequestInfo) -> Revision:
    """The object the errand is about; refuses when there is none."""
    revision = errand.served.collection.get(errand.namespace, errand.name)
    if revision is None:
        raise not_found(errand.served.type, errand.name)
    return revision


def refuse_invalid(errand: RequestInfo, value: Json, errors: Sequence[FieldError]) -> None:
    if errors:
        resource = errand.served.type
        raise invalid(resource.kind, resource.group, value["metadata"].get("name") or "", errors)


def _mutate(passage: WriteAdmission, value: Json) -> Json:
    made = passage.mutate(value)
    assert made is not None, "an admission plugin made nothing of an object"
    return made


def _in_namespace(errand: RequestInfo, value: Json) -> Json:
    """The new object with the namespace of the request."""
    metadata = value["metadata"]
    given = metadata.get("namespace") or ""
    if given == errand.namespace:
        return value
    if given:
        raise bad_request(OTHER_NAMESPACE)
    return {**value, "metadata": {**metadata, "namespace": errand.namespace}}


def _with_preconditions_met(errand: RequestInfo, new: Json, old: Json) -> Json:
    """The new object, once it is known to be meant for the stored one; the server's own fields as they were."""
    if new["metadata"] is not old["metadata"]:
        _refuse_other_name(errand, new["metadata"])
        _refuse_other_version(errand, new["metadata"], old["metadata"])
        new = _with_carried(new, old)
    if new.get("kind") != old["kind"] or new.get("apiVersion") != old["apiVersion"]:
        new = {**new, "kind": old["kind"], "apiVersion": old["apiVersion"]}
    return new


def _with_carried(new: Json, old: Json) -> Json:
    metadata = carried(new["metadata"], old["metadata"])
    return new if metadata is new["metadata"] else {**new, "metadata": metadata}


def _refuse_other_name(errand: RequestInfo, metadata: Json) -> None:
    name, namespace = metadata.get("name"), metadata.get("namespace") or errand.namespace
    if not name:
        text = f"the name of the object ({errand.name} based on URL) was undeterminable: name must be provided"
        raise bad_request(text)
    if name != errand.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({errand.name})")
    if namespace != errand.namespace:
        raise bad_request(OTHER_NAMESPACE)


def _refuse_other_version(errand: RequestInfo, metadata: Json, stored: Json) -> None:
    served = errand.served
    uid, version = metadata.get("uid"), metadata.get("resourceVersion")
    if version and version != stored["resourceVersion"]:
        raise conflict(served.type, errand.name)
    errors: list[FieldError] = []
    if not version and (served.custom or (served.type.group, served.type.plural) in CONDITIONAL_ONLY):
        errors.append(invalid_field("metadata.resourceVersion", 0, "must be specified for an update"))
    if uid and uid != stored["uid"]:
        errors += [invalid_field("metadata.uid", uid, IMMUTABLE)] * 2  # a real server checks it twice as well
    if errors:
        raise invalid(served.type.kind, served.type.group, errand.name, errors)
