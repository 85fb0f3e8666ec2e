"""PreEnqueue plugins at the door of a live engine: timed, and those of strangers kept on a short leash."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from headgate.api.wire import format_duration
from headgate.gates.pre_enqueue import PRE_ENQUEUE, PreEnqueue
from headgate.live.stopwatch import FAILED, PASSED, REFUSED_FOR_GOOD, Answered
from headgate.model.happenings import Happening
from headgate.model.pod import Pod

POINT = "PreEnqueue"


class TookTooLong(Exception):
    """A plugin has not answered in time."""


def door(
    strangers: tuple[PreEnqueue, ...], limit: float, answered: Answered, clock: Callable[[], float]
) -> tuple[PreEnqueue, ...]:
    """The built-in plugins and those written by others, in the order they are asked."""
    contained = tuple(Contained(plugin, limit) for plugin in strangers)
    return tuple(Timed(plugin, answered, clock) for plugin in (*PRE_ENQUEUE, *contained))


class Timed:
    """Tells how long each answer took."""

    def __init__(self, plugin: PreEnqueue, answered: Answered, clock: Callable[[], float]) -> None:
        self.name = plugin.name
        self._plugin, self._answered, self._clock = plugin, answered, clock

    @property
    def wake_on(self) -> frozenset[Happening]:
        return self._plugin.wake_on

    def refusal(self, pod: Pod) -> str | None:
        began, status = self._clock(), FAILED
        try:
            reason = self._plugin.refusal(pod)
            status = PASSED if reason is None else REFUSED_FOR_GOOD
        except TookTooLong as late:
            reason = str(late)
        finally:
            self._answered(self.name, POINT, status, self._clock() - began)
        return reason


class Errand:
    """One pod a plugin is asked about, and what came of it."""

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.done = threading.Event()
        self.reason: str | None = None
        self.failure: Exception | None = None


class Contained:
    """Runs a stranger's plugin on a thread of its own. While it hangs it holds back its pods and nobody else.

    Raises TookTooLong when the answer is late, and at once for every pod that comes while it is still out.
    """

    def __init__(self, plugin: PreEnqueue, limit: float) -> None:
        self.name = plugin.name
        self._plugin, self._limit = plugin, limit
        self._errands: SimpleQueue[Errand] = SimpleQueue()
        self._late: Errand | None = None
        threading.Thread(target=self._work, name=f"plugin {plugin.name}", daemon=True).start()

    @property
    def wake_on(self) -> frozenset[Happening]:
        return self._plugin.wake_on

    def refusal(self, pod: Pod) -> str | None:
        if self._late is not None and not self._late.done.is_set():
            raise self._too_long()
        self._late = None
        errand = Errand(pod)
        self._errands.put(errand)
        if not errand.done.wait(self._limit):
            self._late = errand
            raise self._too_long()
        if errand.failure is not None:
            raise errand.failure
        return errand.reason

    def _too_long(self) -> TookTooLong:
        return TookTooLong(f"plugin {self.name} took longer than {format_duration(self._limit)}")

    def _work(self) -> None:
        while True:
            errand = self._errands.get()
            try:
                errand.reason = self._plugin.refusal(errand.pod)
            except Exception as failure:  # told to whoever asked
                errand.failure = failure
            errand.done.set()
