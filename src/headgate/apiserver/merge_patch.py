"""JSON merge patch (RFC 7386), sharing with the original all that it leaves alone."""

from __future__ import annotations

from typing import Any

from headgate.apiserver.known_values import Memory
from headgate.apiserver.messages import Json


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """The patched value; neither argument is changed. The target itself where its texts and objects all stay."""
    if not isinstance(patch, dict):
        return patch
    original: Json | None = target if isinstance(target, dict) else None
    result: Json = {} if original is None else original
    for name, change in patch.items():
        before = result.get(name)
        after = apply_merge_patch(before, change) if isinstance(change, dict) else change
        if after is before and (after is not None or name not in result):
            continue
        if type(after) is str and after == before:
            continue
        if result is original:
            result = dict(result)
        if after is None:
            del result[name]
        else:
            result[name] = after
    return result


class SharedMerges:
    """Patches of objects whose parts are shared by all that read the same: what one change makes of one part."""

    def __init__(self) -> None:
        self._made: Memory[tuple[int, int], tuple[Any, Any, Any]] = Memory()  # kept with what it was made of

    def applied(self, target: Json, patch: Json) -> Json:
        """As a merge patch has it. Metadata are each object's own."""
        result = dict(target)
        for name, change in patch.items():
            if change is None:
                result.pop(name, None)
            elif name == "metadata":
                result[name] = apply_merge_patch(target.get(name), change)
            else:
                result[name] = self._merged(target.get(name), change)
        return result

    def _merged(self, part: Any, change: Any) -> Any:
        key = (id(part), id(change))
        known = self._made.of(key)
        if known is None:
            known = (part, change, apply_merge_patch(part, change))
            self._made.put(key, known)
        return known[2]
