"""Durations of plugin calls and admission cycles: one call in ten of a placement plugin is timed, every cycle is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

import numpy as np

from headgate.engine.extension_points import ADMISSION, FILTER, POST_FILTER, RESERVE, SCORE
from headgate.engine.quota.admission_cycle import Admitted
from headgate.model.cluster_events import ClusterEvent
from headgate.placement.plugins import Each, NamedPlugin
from headgate.preemption.search import Plan

Answered = Callable[[str, str, str, float], None]
"""Takes a plugin's name, the extension point, how the answer counts, and how many seconds it took."""

# as kube-scheduler names them
PASSED, FAILED = "Success", "Error"
REFUSED, REFUSED_FOR_GOOD = "Unschedulable", "UnschedulableAndUnresolvable"

# as Kueue names them
SUCCESS, INADMISSIBLE = "success", "inadmissible"

ONE_IN = 10  # answers: kube-scheduler times as many of its cycles
ANSWERS: Mapping[str, tuple[str, ...]] = {
    FILTER: ("refusal", "demands", "admits"),
    POST_FILTER: ("plan",),
    SCORE: ("scores",),
    RESERVE: ("reserve",),
    ADMISSION: ("outcomes",),
}
"""The methods by which a rule answers at each extension point."""

R = TypeVar("R", bound=NamedPlugin)


class Stopwatch:
    """Wraps plugins so that some of their calls are timed; results are the same."""

    def __init__(self, answered: Answered, clock: Callable[[], float]) -> None:
        self._answered, self._clock = answered, clock

    def __call__(self, rule: R, point: str, /) -> R:
        methods = [name for name in ANSWERS[point] if hasattr(rule, name)]
        return cast(R, _Watched(rule, {name: self._timed(rule, point, name) for name in methods}))

    def _timed(self, rule: NamedPlugin, point: str, method: str) -> Callable[..., Any]:
        """The first call is timed, so that plugins that are rarely called have a series too."""
        ask, answered, clock = getattr(rule, method), self._answered, self._clock
        untimed = 0

        def answer(*about: Any) -> Any:
            nonlocal untimed
            if untimed:
                untimed -= 1
                return ask(*about)
            untimed = 0 if point == ADMISSION else ONE_IN - 1
            began = clock()
            found = ask(*about)
            if method == "demands":
                found = list(found)  # which makes them out, one by one
            seconds = clock() - began
            answered(rule.name, point, _status(rule, method, found), seconds)
            return iter(found) if method == "demands" else found

        return answer


class _Watched:
    """A plugin with some methods replaced by timed ones. It is an instance of the plugin's class to whoever asks."""

    def __init__(self, rule: NamedPlugin, methods: Mapping[str, Callable[..., Any]]) -> None:
        self._rule = rule
        for name, method in methods.items():
            setattr(self, name, method)

    @property  # type: ignore[misc]  # nobody sets it
    def __class__(self) -> type[Any]:
        return type(self._rule)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._rule, name)
        if callable(found):
            setattr(self, name, found)  # asked often: it is found at once the next time
        return found


def _status(rule: NamedPlugin, method: str, answer: Any) -> str:
    """One answer for many nodes counts as a refusal when it refuses all of them."""
    if method == "outcomes":
        return SUCCESS if any(isinstance(outcome, Admitted) for outcome in answer) else INADMISSIBLE
    if _passes(method, answer):
        return PASSED
    curable = method == "plan" or ClusterEvent.ROOM_FREED in getattr(rule, "wake_on", ())
    return REFUSED if curable else REFUSED_FOR_GOOD


def _passes(method: str, answer: Any) -> bool:
    match method:
        case "refusal":
            return answer is None
        case "demands":
            return bool(np.any(_all_met(answer)))
        case "admits":
            return bool(answer)
        case "plan":
            return isinstance(answer, Plan)
    return True


def _all_met(demands: Iterable[tuple[str, Each]]) -> Each:
    everything: Each = True
    for _, met in demands:
        everything = everything & met
    return everything
