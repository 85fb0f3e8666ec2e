"""Field managers: who owns a field after a write, when an apply conflicts, and what it removes.

A manager is a name with an operation, a subresource and, for updates, an API version. An update takes the fields it
changes from all others. An apply owns what it says: it conflicts where another manager owns a field it would change,
and removes what it said before, does not say any more and nobody else owns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from headgate.apiserver.caches import FIELD_SHAPES, Cache
from headgate.apiserver.field_errors import quote
from headgate.apiserver.kubernetes_types import type_of
from headgate.apiserver.managedfields.paths import (
    NO_PATHS,
    InvalidFields,
    Path,
    Paths,
    decode_paths,
    encode_paths,
    field,
    in_order,
    outside,
    shown,
)
from headgate.apiserver.managedfields.typed import (
    ANY,
    Comparison,
    InvalidValue,
    Shape,
    compare,
    field_set,
    kind_shape,
    merged,
    resource_shape,
    validate,
    with_named_fields,
    without,
)
from headgate.apiserver.messages import Json
from headgate.apiserver.metadata import timestamp
from headgate.apiserver.patches import same_json
from headgate.apiserver.registry import RequestInfo, ServedResource
from headgate.apiserver.status import StatusError, bad_request
from headgate.apiserver.strategy import ScalePaths

APPLY, UPDATE = "Apply", "Update"
MOST_UPDATERS = 10
ANCIENT, BEFORE_FIRST_APPLY, KUBECTL = "ancient-changes", "before-first-apply", "kubectl"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_METADATA = ("name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation")
_UNOWNED: Paths = frozenset(
    {
        (field("apiVersion"),),
        (field("kind"),),
        (field("metadata"),),
        *((field("metadata"), field(name)) for name in (*_METADATA, "managedFields", "resourceVersion")),
    }
)
"""Fields nobody owns."""
_STATUS: Paths = frozenset({(field("status"),)})
_SPEC: Paths = frozenset({(field("spec"),)})
_SPEC_AND_METADATA: Paths = frozenset({(field("metadata"),), (field("spec"),)})
_KEPT_BY_STATUS: Mapping[tuple[str, str], Paths] = {
    ("", "pods"): _SPEC
    | {(field("metadata"), field("deletionTimestamp")), (field("metadata"), field("ownerReferences"))},
    ("apps", "deployments"): _SPEC | {(field("metadata"), field("labels"))},
    ("resource.k8s.io", "resourceclaims"): _SPEC_AND_METADATA,
}
"""What a write of the status does not change, where that is not the spec alone."""


class Manager(NamedTuple):
    name: str
    operation: str
    api_version: str  # empty for those that apply
    subresource: str


class Managed(NamedTuple):
    """The fields of one manager."""

    paths: Paths
    api_version: str
    time: str | None


Managers = dict[Manager, Managed]


class ApplyConflict(Exception):
    """Fields an apply would change, by the managers that own them."""

    def __init__(self, owned: Mapping[Manager, Paths]) -> None:
        super().__init__("conflict")
        self.owned = dict(owned)


def decode_managers(entries: Any) -> Managers:
    """The managers in metadata.managedFields. Raises InvalidFields."""
    found: Managers = {}
    for entry in entries or ():
        if not isinstance(entry, dict):
            raise InvalidFields("expected an object")
        operation, version = entry.get("operation"), entry.get("apiVersion")
        if operation not in (APPLY, UPDATE):
            raise InvalidFields("operation must be `Apply` or `Update`")
        if not isinstance(version, str) or not version or entry.get("fieldsType") != "FieldsV1":
            raise InvalidFields("apiVersion must not be empty and fieldsType must be FieldsV1")
        names = (str(entry.get("manager") or ""), operation, "" if operation == APPLY else version)
        manager = Manager(*names, str(entry.get("subresource") or ""))
        found[manager] = Managed(decode_paths(entry.get("fieldsV1") or {}), version, entry.get("time"))
    return found


def encode_managers(managers: Managers) -> list[Json]:
    """The entries of metadata.managedFields: those that apply first, then by time and name."""
    order = sorted(managers, key=lambda each: (each.operation, managers[each].time or "", *each))
    return [_entry(manager, managers[manager]) for manager in order]


def _entry(manager: Manager, managed: Managed) -> Json:
    parts = {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": managed.api_version,
        "time": managed.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": encode_paths(managed.paths),
        "subresource": manager.subresource,
    }
    return {name: part for name, part in parts.items() if part or name == "fieldsV1"}


def without_fields(value: Json) -> Json:
    """The object without its managedFields."""
    metadata = value["metadata"]
    if "managedFields" not in metadata:
        return value
    return {**value, "metadata": {name: part for name, part in metadata.items() if name != "managedFields"}}


def with_fields(value: Json, entries: Sequence[Json]) -> Json:
    return {**value, "metadata": {**value["metadata"], "managedFields": list(entries)}} if entries else value


def unless_only_times_differ(entries: list[Json], stored: Json, *, changed: bool) -> list[Json]:
    """The entries, or those of the stored object if the object is unchanged and only times differ."""
    before: list[Json] = stored["metadata"].get("managedFields") or []
    if changed or len(before) != len(entries):
        return entries
    return before if all(map(_same_but_for_time, entries, before)) else entries


def _same_but_for_time(one: Json, other: Json) -> bool:
    return {**one, "time": None} == {**other, "time": None}


class FieldTracker:
    """Keeps managedFields of the objects of one server."""

    def __init__(self) -> None:
        self._shapes: Cache[ServedResource, Shape] = Cache(FIELD_SHAPES)

    def created(self, info: RequestInfo, new: Json, given: Any) -> list[Json]:
        """The entries of a new object, from the object as it was read; `given` are entries the client sent."""
        try:
            managers = self._updated(info, _decoded_or_none(given), _empty_object(new), new, info.manager)
        except ValueError:
            return []  # validation says what is wrong with it
        return encode_managers(managers)

    def updated(self, info: RequestInfo, new: Json, stored: Json, given: Any) -> list[Json]:
        """The entries of an object after an update; `given` are entries the client sent."""
        before = _managers_of_update(info, given, stored["metadata"].get("managedFields"))
        if not before:
            return []  # nobody is tracked until the first apply
        if info.subresource == "scale" and not _is_owned(before, info.served.type.scale):
            return encode_managers(before)  # as a real server, which sees the managers of the replicas only
        try:
            managers = self._updated(info, before, without_fields(stored), new, info.manager)
        except ValueError:
            return []  # validation says what is wrong with it
        return encode_managers(managers)

    def applied(self, info: RequestInfo, config: Json, live: Json | None, *, force: bool) -> tuple[Json, list[Json]]:
        """The object a configuration makes of the live one, and its entries; refuses conflicts unless it is forced."""
        shape = self._shape(info.served)
        _refuse_config(info, config)
        try:
            validate(config, shape)
        except InvalidValue as error:
            message = f"failed to create typed patch object ({_named(info, config)}): {error}"
            raise StatusError(500, "", message) from None
        config = {**config, "metadata": config.get("metadata") or {}}
        bare = _empty_object(config) if live is None else without_fields(live)
        managers = _decoded_or_none(live["metadata"].get("managedFields")) if live is not None else {}
        if not managers and live is not None:
            managers = self._updated(info, {}, _empty_object(live), bare, BEFORE_FIRST_APPLY)
        try:
            new, after = self._apply(info, managers, bare, config, force=force)
        except ApplyConflict as conflict:
            if info.manager != KUBECTL or live is None:
                raise _conflict_error(conflict.owned) from None
            allowed = self._last_applied(info, bare)
            left = {manager: paths - allowed for manager, paths in conflict.owned.items() if paths - allowed}
            if left:
                raise _conflict_error(left) from None
            new, after = self._apply(info, managers, bare, config, force=True)
        return _with_last_applied(info, new, config), encode_managers(after)

    def _apply(
        self, info: RequestInfo, managers: Managers, live: Json, config: Json, *, force: bool
    ) -> tuple[Json, Managers]:
        shape, reset = self._shape(info.served), _reset_fields(info)
        manager = Manager(info.manager, APPLY, "", info.subresource)
        last, version = managers.get(manager), info.served.api_version
        paths = outside(field_set(config, shape), reset)
        managers = {**managers, manager: Managed(paths, version, last.time if last is not None else None)}
        new = _pruned(merged(live, config, shape), shape, last.paths if last else NO_PATHS, managers.values())
        managers = _taken(managers, self._difference(info, live, new), manager, force=force)
        owned = managers.get(manager)
        if owned is not None:
            time = owned.time if same_json(new, live) else timestamp(int(info.now))
            managers[manager] = owned._replace(paths=owned.paths - _UNOWNED, time=time)
            if not managers[manager].paths:
                del managers[manager]
        return new, managers

    def _updated(self, info: RequestInfo, managers: Managers, old: Json, new: Json, name: str) -> Managers:
        """The managers after an update, which takes what it changes from all, also from its own earlier ones."""
        version = info.served.api_version
        manager = Manager(name, UPDATE, version, info.subresource)
        difference = self._difference(info, old, new)
        managers = _taken(managers, difference, None, force=True)
        paths = frozenset(difference.changed - _UNOWNED)
        if paths:
            before = managers.get(manager) or Managed(NO_PATHS, version, None)
            # A real server translates the managers of a Scale and loses the time.
            time = before.time if info.subresource == "scale" else timestamp(int(info.now))
            managers[manager] = Managed(paths | before.paths, version, time)
        return _capped(managers)

    def _difference(self, info: RequestInfo, old: Json, new: Json) -> Comparison:
        """The difference of two objects, but for what a request of this kind cannot change."""
        found, reset = compare(old, new, self._shape(info.served)), _reset_fields(info)
        return Comparison(*(set(outside(of, reset)) for of in (found.added, found.modified, found.removed)))

    def _last_applied(self, info: RequestInfo, live: Json) -> Paths:
        """The fields that client-side apply has set and nobody has changed since."""
        text = (live["metadata"].get("annotations") or {}).get(LAST_APPLIED)
        if not isinstance(text, str):
            return NO_PATHS
        shape = self._shape(info.served)
        try:
            config = msgspec.json.decode(text, type=dict[str, Any])
            validate(config, shape)
        except (msgspec.DecodeError, InvalidValue):
            return NO_PATHS
        if config.get("apiVersion") != info.served.api_version:
            return NO_PATHS
        difference = compare(config, live, shape)
        return field_set(config, shape) - difference.changed - difference.removed

    def _shape(self, served: ServedResource) -> Shape:
        found = self._shapes.get(served)
        if found is None:
            schema, name = served.type.schema, type_of(served.api_version, served.type.kind)
            found = resource_shape(schema) if schema is not None else kind_shape(name) if name else ANY
            self._shapes.put(served, found)
        return found


def _taken(managers: Managers, difference: Comparison, manager: Manager | None, *, force: bool) -> Managers:
    """The managers without what a change takes from them; raises ApplyConflict where that is not allowed."""
    changed = difference.changed
    owned = {each: of.paths & changed for each, of in managers.items() if each != manager and of.paths & changed}
    if owned and not force:
        raise ApplyConflict(owned)
    kept: Managers = {}
    for each, of in managers.items():
        paths = of.paths if each == manager else of.paths - changed - difference.removed
        if paths:
            kept[each] = of._replace(paths=paths)
    return kept


def _is_owned(managers: Managers, scale: ScalePaths | None) -> bool:
    """Whether anybody manages the replicas."""
    path = tuple(map(field, scale.replicas.strip(".").split("."))) if scale is not None else ()
    return any(path in of.paths for of in managers.values())


def _empty_object(value: Json) -> Json:
    """The object before anything was written: its kind alone."""
    return {"apiVersion": value.get("apiVersion"), "kind": value.get("kind")}


def _managers_of_update(info: RequestInfo, given: Any, stored: Any) -> Managers:
    """Those the request says, or those of the stored object; none if the request resets them."""
    if info.subresource or given is stored or given is None:
        return _decoded_or_none(stored)
    if given in ([], [{}]):
        return {}
    return _decoded_or_none(given) or _decoded_or_none(stored)


def _decoded_or_none(entries: Any) -> Managers:
    """None of what cannot be decoded: managedFields are a client's to write."""
    if not isinstance(entries, list):
        return {}
    try:
        return decode_managers(entries)
    except InvalidFields:
        return {}


def _refuse_config(info: RequestInfo, config: Json) -> None:
    api_version, kind = config.get("apiVersion") or "", config.get("kind") or ""
    if (api_version, kind) != (info.served.api_version, info.served.type.kind):
        raise bad_request(f"invalid object type: {_group_version_kind(str(api_version), str(kind))}")
    if (config.get("metadata") or {}).get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")


def _group_version_kind(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    return f"{group}/{version}, Kind={kind}"


def _named(info: RequestInfo, config: Json) -> str:
    metadata = config.get("metadata") or {}
    named = _group_version_kind(info.served.api_version, info.served.type.kind)
    return f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}; {named}"


def _reset_fields(info: RequestInfo) -> Paths:
    """What a write of this resource or of its status does not change, whatever it says."""
    served = info.served
    if info.subresource != "status":
        return _STATUS if served.type.has_status else NO_PATHS
    if served.custom:
        return _SPEC_AND_METADATA
    return _KEPT_BY_STATUS.get((served.type.group, served.type.plural), _SPEC)


def _pruned(value: Json, shape: Shape, last: Paths, managed: Iterable[Managed]) -> Json:
    """The merged object without what was applied before, is not any more, and nobody owns."""
    if not last:
        return value
    whole, last = with_named_fields(field_set(value, shape), shape), with_named_fields(last, shape)
    owned = with_named_fields(frozenset[Path]().union(*(of.paths for of in managed)), shape)
    left = with_named_fields(field_set(_object(without(value, shape, encode_paths(last))), shape), shape)
    kept = _object(without(value, shape, encode_paths(whole - left - owned)))
    gone = (whole - with_named_fields(field_set(kept, shape), shape)) & last
    return _object(without(value, shape, encode_paths(gone))) if gone else value


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _capped(managers: Managers) -> Managers:
    """At most ten managers by update: the oldest ones of an API version become one."""
    updaters = sorted(
        (each for each in managers if each.operation == UPDATE), key=lambda each: (managers[each].time or "", each)
    )
    first: dict[str, Manager] = {}
    count, kept = len(updaters), dict(managers)
    for each in updaters:
        if count <= MOST_UPDATERS:
            break
        version = kept[each].api_version
        if version not in first:
            first[version] = each
            continue
        bucket = Manager(ANCIENT, UPDATE, version, "")
        if bucket not in kept:
            kept[bucket] = kept.pop(first[version])
        of = kept.pop(each)
        kept[bucket] = of._replace(paths=of.paths | kept[bucket].paths)
        count -= 1
    return kept


def _with_last_applied(info: RequestInfo, value: Json, config: Json) -> Json:
    """Keeps the annotation of client-side apply in step, where kubectl applies and it is there."""
    annotations = value["metadata"].get("annotations") or {}
    if info.manager != KUBECTL or not annotations.get(LAST_APPLIED):
        return value
    metadata = dict(config.get("metadata") or {})
    if "annotations" in metadata:
        kept = {name: text for name, text in metadata["annotations"].items() if name != LAST_APPLIED}
        metadata["annotations"] = kept
    said = msgspec.json.encode({**config, "metadata": metadata}, order="sorted").decode() + "\n"
    return {**value, "metadata": {**value["metadata"], "annotations": {**annotations, LAST_APPLIED: said}}}


def _conflict_error(owned: Mapping[Manager, Paths]) -> StatusError:
    conflicts = [(manager, path) for manager in sorted(owned) for path in in_order(owned[manager])]
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {_shown_manager(manager)}", "field": shown(path)}
        for manager, path in conflicts
    ]
    if len(conflicts) == 1:
        ((manager, path),) = conflicts
        text = f"Apply failed with 1 conflict: conflict with {_shown_manager(manager)}: {shown(path)}"
    else:
        lines = []
        for manager in sorted(owned):
            lines.append(f"conflicts with {_shown_manager(manager)}:")
            lines += [f"- {shown(path)}" for path in in_order(owned[manager])]
        text = f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
    return StatusError(409, "Conflict", text, {"causes": causes})


def _shown_manager(manager: Manager) -> str:
    text = quote(manager.name)
    if manager.subresource:
        text = f"{text} with subresource {quote(manager.subresource)}"
    return f"{text} using {manager.api_version}" if manager.operation == UPDATE else text
