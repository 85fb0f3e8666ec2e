"""Strategic merge patch for built-in kinds: lists of objects merge by a key instead of being replaced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.apiserver.messages import Json
from headgate.apiserver.status import bad_request

MERGE_KEYS: Mapping[str, str] = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "ports": "containerPort",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "secrets": "name",
    "taints": "key",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
    "webhooks": "name",
}
"""Lists of objects that merge, and the field that tells their items apart; all other lists are replaced whole."""
SETS = ("finalizers",)
"""Lists of plain values to which a patch adds."""
DIRECTIVE, KEEP_ONLY = "$patch", "$retainKeys"
ORDER, DELETE_VALUES = "$setElementOrder/", "$deleteFromPrimitiveList/"


def apply_strategic_patch(target: Json, patch: Json) -> Json:
    """The patched object; neither argument is changed."""
    match patch.get(DIRECTIVE):
        case "replace":
            return {name: _plain(part) for name, part in patch.items() if not name.startswith("$")}
        case "delete":
            return {}
        case None | "merge":
            return _merged(target, patch)
        case other:
            raise bad_request(f"unknown patch directive {other!r}: expected replace, delete or merge")


def _merged(target: Json, patch: Json) -> Json:
    result = _kept(target, patch)
    for name, change in patch.items():
        if name.startswith(DELETE_VALUES):
            field = name.removeprefix(DELETE_VALUES)
            result[field] = [value for value in result.get(field) or () if value not in change]
        elif name in (DIRECTIVE, KEEP_ONLY) or name.startswith(ORDER):
            continue
        elif change is None:
            result.pop(name, None)
        else:
            result[name] = _field(name, result.get(name), change)
    return result


def _kept(target: Json, patch: Json) -> Json:
    keep = patch.get(KEEP_ONLY)
    return dict(target) if keep is None else {name: value for name, value in target.items() if name in keep}


def _field(name: str, current: Any, change: Any) -> Any:
    if isinstance(change, dict):
        return apply_strategic_patch(current if isinstance(current, dict) else {}, change)
    if not isinstance(change, list):
        return change
    present = current if isinstance(current, list) else []
    if name in SETS:
        return [*present, *(value for value in change if value not in present)]
    key = _merge_key(name, [*present, *change])
    return _plain(change) if key is None else _list(present, change, key)


def _merge_key(name: str, items: list[Any]) -> str | None:
    """The list's merge key; a service's ports have none called containerPort and go by port."""
    key = MERGE_KEYS.get(name)
    if key is None or not all(isinstance(item, dict) for item in items):
        return None
    if name == "ports" and any("port" in item for item in items):
        return "port"
    return key


def _list(current: list[Json], changes: list[Json], key: str) -> list[Json]:
    if any(change.get(DIRECTIVE) == "replace" and key not in change for change in changes):
        return [_plain(change) for change in changes if key in change]
    result = list(current)
    for change in changes:
        if key not in change:
            raise bad_request(f"map: {change} does not contain declared merge key: {key}")
        _merge_item(result, change, key)
    return result


def _merge_item(items: list[Json], change: Json, key: str) -> None:
    at = next((index for index, item in enumerate(items) if item.get(key) == change[key]), None)
    if change.get(DIRECTIVE) == "delete":
        items[:] = [item for item in items if item.get(key) != change[key]]
    elif at is None:
        items.append(apply_strategic_patch({}, change))
    else:
        items[at] = apply_strategic_patch(items[at], change)


def _plain(value: Any) -> Any:
    """The value without directives."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items() if not name.startswith("$")}
    return [_plain(part) for part in value] if isinstance(value, list) else value
