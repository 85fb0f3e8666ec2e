"""JSON merge patch (RFC 7386), sharing with the original and the patch all that comes from them as it is."""

from __future__ import annotations

from operator import is_
from typing import Any

from headgate.apiserver.known_values import Memory
from headgate.apiserver.messages import Json

_TEXT = frozenset({str})


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """The patched value; neither argument is changed. The target itself where its texts and objects all stay, the
    patch itself where it says all that there is then.
    """
    if not isinstance(patch, dict):
        return patch
    original: Json | None = target if isinstance(target, dict) else None
    result: Json = {} if original is None else original
    for name, change in patch.items():
        if change is None and name not in result:
            continue
        before = result.get(name)
        after = apply_merge_patch(before, change) if type(change) is dict else change
        if after is not None and (after == before if type(after) is str else after is before):
            continue
        if result is original:
            result = dict(result)
        if after is None:
            del result[name]
        else:
            result[name] = after
    return result if result is original or not _says_all(patch, result) else patch


def _says_all(patch: Json, result: Json) -> bool:
    """Whether they are the same from the first field to the last."""
    if len(patch) != len(result) or list(patch) != list(result):
        return False
    return all(map(is_, patch.values(), result.values()))


def _is_precondition(change: Any, metadata: Any) -> bool:
    """Whether it says nothing but texts that are there: it names the object that is meant, and it is that."""
    if type(change) is not dict or type(metadata) is not dict:
        return False
    return _TEXT.issuperset(map(type, change.values())) and change.items() <= metadata.items()


class SharedMerges:
    """Patches of objects whose parts are shared by all that read the same: what one change makes of one part.

    What has become of different parts is shared again where it was put together from the same.
    """

    def __init__(self) -> None:
        self._made: Memory[tuple[int, int], tuple[Any, Any, Any]] = Memory()  # kept with what it was made of
        self._alike: Memory[tuple[Any, ...], Json] = Memory()  # by names and identities of fields

    def applied(self, target: Json, patch: Json) -> Json:
        """As a merge patch has it. Metadata are each object's own."""
        result = dict(target)
        for name, change in patch.items():
            if change is None:
                result.pop(name, None)
            elif name != "metadata":
                result[name] = self._merged(target.get(name), change)
            elif not _is_precondition(change, target.get(name)):
                result[name] = apply_merge_patch(target.get(name), change)
        return result

    def _merged(self, part: Any, change: Any) -> Any:
        key = (id(part), id(change))
        known = self._made.get(key)
        if known is None:
            known = (part, change, self._shared(apply_merge_patch(part, change)))
            self._made.put(key, known)
        return known[2]

    def _shared(self, made: Any) -> Any:
        if not isinstance(made, dict):
            return made
        key = (*made, *map(id, made.values()))
        known = self._alike.get(key)
        if known is None:
            known = made
            self._alike.put(key, made)
        return known
