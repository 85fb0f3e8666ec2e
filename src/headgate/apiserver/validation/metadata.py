"""ObjectMeta: names, labels, annotations, owner references and finalizers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from headgate.apiserver.caches import NAMES, memoized
from headgate.apiserver.field_errors import (
    FieldError,
    forbidden,
    invalid,
    invalid_each,
    required,
    same,
    too_long,
    unchanged,
)
from headgate.apiserver.messages import Json
from headgate.apiserver.validation.types import ObjectMeta, OwnerReference
from headgate.model import names

dns_label_errors = memoized(NAMES)(names.dns_label_errors)
label_value_errors = memoized(NAMES)(names.label_value_errors)
qualified_name_errors = memoized(NAMES)(names.qualified_name_errors)

NameValidator = Callable[[str], tuple[str, ...]]

MOST_ANNOTATION_BYTES = 256 * 1024
_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"
STANDARD_FINALIZERS = ("kubernetes", _ORPHAN, _FOREGROUND)
_IMMUTABLE = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def metadata_errors(metadata: ObjectMeta, name_rule: NameValidator, *, namespaced: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    if metadata.generate_name:
        errors += invalid_each(
            "metadata.generateName", metadata.generate_name, name_rule(_masked(metadata.generate_name))
        )
    if not metadata.name:
        errors.append(required("metadata.name", "name or generateName is required"))
    elif wrong := name_rule(metadata.name):
        errors += invalid_each("metadata.name", metadata.name, wrong)
    errors += _namespace_errors(metadata.namespace or "", namespaced)
    return errors + common_metadata_errors(metadata)


def _masked(prefix: str) -> str:
    """A generateName as a name: its trailing dash will be followed by a suffix."""
    return prefix[:-1] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def _namespace_errors(namespace: str, namespaced: bool) -> list[FieldError]:
    if not namespaced:
        return [forbidden("metadata.namespace", "not allowed on this type")] if namespace else []
    if not namespace:
        return [required("metadata.namespace")]
    return invalid_each("metadata.namespace", namespace, dns_label_errors(namespace))


def common_metadata_errors(metadata: ObjectMeta) -> list[FieldError]:
    """Errors of all metadata but name and namespace."""
    errors = label_errors("metadata.labels", metadata.labels)
    if metadata.annotations:
        errors += _annotation_errors(metadata.annotations)
    if metadata.owner_references:
        errors += _owner_errors(metadata.owner_references)
    if metadata.finalizers:
        errors += _finalizer_errors(metadata.finalizers)
    return errors


def label_errors(path: str, labels: Mapping[str, str] | None) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, value in (labels or {}).items():
        if wrong := qualified_name_errors(name):
            errors += invalid_each(path, name, wrong)
        if wrong := label_value_errors(value):
            errors += invalid_each(path, value, wrong)
    return errors


def label_name_errors(path: str, name: str) -> list[FieldError]:
    return invalid_each(path, name, qualified_name_errors(name))


def _annotation_errors(annotations: Mapping[str, str]) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in annotations:
        errors += invalid_each("metadata.annotations", name, qualified_name_errors(name.lower()))
    size = sum(len(name.encode()) + len(value.encode()) for name, value in annotations.items())
    if size > MOST_ANNOTATION_BYTES:
        errors.append(too_long("metadata.annotations", MOST_ANNOTATION_BYTES))
    return errors


def _owner_errors(owners: Iterable[OwnerReference]) -> list[FieldError]:
    errors: list[FieldError] = []
    path, controller = "metadata.ownerReferences", ""
    for owner in owners:
        if not (owner.api_version or "").rpartition("/")[2]:
            errors.append(invalid(f"{path}.apiVersion", owner.api_version or "", "version must not be empty"))
        named = (("kind", owner.kind), ("name", owner.name), ("uid", owner.uid))
        errors += [invalid(f"{path}.{field}", "", "must not be empty") for field, value in named if not value]
        if owner.controller:
            this = f"{owner.kind}/{owner.name}"
            if controller:
                errors.append(invalid(path, list(owners), _two_controllers(controller, this)))
            controller = controller or this
    return errors


def _two_controllers(first: str, second: str) -> str:
    return (
        'Only one reference can have Controller set to true. Found "true" in references for ' + f"{first} and {second}"
    )


def _finalizer_errors(finalizers: list[str]) -> list[FieldError]:
    path = "metadata.finalizers"
    errors = [error for name in finalizers for error in invalid_each(path, name, qualified_name_errors(name))]
    unqualified = "name is neither a standard finalizer name nor is it fully qualified"
    for index, name in enumerate(finalizers):
        if "/" not in name and name not in STANDARD_FINALIZERS:
            errors.append(invalid(f"{path}[{index}]", name, unqualified))
    if _ORPHAN in finalizers and _FOREGROUND in finalizers:
        errors.append(invalid(path, finalizers, f"finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set"))
    return errors


def is_unchanged(new: Json, old: Json) -> bool:
    """Whether nothing but the generation differs."""
    return new is old or (
        new.keys() == old.keys() and all(part is old[name] or name == "generation" for name, part in new.items())
    )


def metadata_update_errors(new: Json, old: Json, shape: ObjectMeta) -> list[FieldError]:
    """Errors of immutable fields, and of the changed ones. `shape` is the new metadata; absent fields count as
    unchanged.
    """
    if is_unchanged(new, old):
        return []
    errors: list[FieldError] = []
    if old.get("deletionTimestamp"):
        errors += _new_finalizer_errors(shape.finalizers or (), old.get("finalizers") or ())
    for name in _IMMUTABLE:
        if new.get(name) is not None:
            errors += unchanged(f"metadata.{name}", new[name], old.get(name))
    return errors + _changed_errors(new, old, shape)


def _new_finalizer_errors(new: Iterable[str], old: Iterable[str]) -> list[FieldError]:
    added = sorted(set(new) - set(old))
    if not added:
        return []
    shown = ", ".join(f'"{name}"' for name in added)
    detail = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{shown}}}"
    return [forbidden("metadata.finalizers", detail)]


def _changed_errors(new: Json, old: Json, shape: ObjectMeta) -> list[FieldError]:
    """Errors of labels, annotations, owners and finalizers, if any of them differ."""
    parts = ("labels", "annotations", "ownerReferences", "finalizers")
    return [] if all(same(new.get(part), old.get(part)) for part in parts) else common_metadata_errors(shape)
