"""Plugins written by others: what they hand us, and whether it is a PreEnqueue plugin at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from headgate.gates.pre_enqueue import PreEnqueue
from headgate.model.happenings import Happening


class InvalidPlugin(Exception):
    """An installed plugin that cannot be used: which one, and what was expected of it."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"plugin {name}: {problem}")
        self.name, self.problem = name, problem


def plugin_from(name: str, found: object) -> PreEnqueue:
    """The plugin called `name`, from an object that is one or from a class or function that makes one."""
    made = found if hasattr(found, "refusal") and not isinstance(found, type) else _made(name, found)
    if getattr(made, "name", None) != name:
        raise InvalidPlugin(name, f"expected the attribute name to be {name!r}, got {getattr(made, 'name', None)!r}")
    if not callable(getattr(made, "refusal", None)):
        raise InvalidPlugin(name, "expected a method refusal(pod) that answers with a reason or None")
    wake_on = getattr(made, "wake_on", None)
    if not isinstance(wake_on, frozenset) or not all(isinstance(each, Happening) for each in wake_on):
        raise InvalidPlugin(name, f"expected wake_on to be a frozenset of Happening, got {wake_on!r}")
    return cast(PreEnqueue, made)


def _made(name: str, found: object) -> object:
    if not callable(found):
        raise InvalidPlugin(name, f"expected a plugin, or a class or function that makes one, got {found!r}")
    make = cast(Callable[[], object], found)
    try:
        return make()
    except Exception as failure:  # whatever a stranger's code raises, the operator is told which plugin it was
        raise InvalidPlugin(name, f"could not be made: {type(failure).__name__}: {failure}") from failure
