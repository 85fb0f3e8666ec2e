"""JSON merge patch (RFC 7386), sharing with the original all that it leaves alone."""

from __future__ import annotations

from typing import Any


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """The patched value; neither argument is changed."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, change in patch.items():
        if change is None:
            result.pop(name, None)
        elif isinstance(change, dict):
            result[name] = apply_merge_patch(result.get(name), change)
        else:
            result[name] = change
    return result
