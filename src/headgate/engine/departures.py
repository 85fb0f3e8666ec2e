"""Who in line waits for which pods to leave."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.model.keys import Key


class Departures:
    """Says when the last of those someone waits for has left, so that nobody looks in vain after each of them."""

    def __init__(self) -> None:
        self._expected: dict[Key, dict[Key, None]] = {}  # by place in line
        self._awaiting: dict[Key, dict[Key, None]] = {}  # by pod that is to leave

    def expect(self, place: Key, pods: Iterable[Key]) -> None:
        """These, and no others, must leave for the one at this place."""
        self.forget(place)
        self._expected[place] = dict.fromkeys(pods)
        for pod in self._expected[place]:
            self._awaiting.setdefault(pod, {})[place] = None

    def forget(self, place: Key) -> None:
        for pod in self._expected.pop(place, {}):
            self._awaiting[pod].pop(place)
            if not self._awaiting[pod]:
                del self._awaiting[pod]

    def left(self, pod: Key) -> list[Key]:
        """The pod has left: the places at which nobody else is waited for now."""
        places = list(self._awaiting.pop(pod, ()))
        for place in places:
            del self._expected[place][pod]
        done = [place for place in places if not self._expected[place]]
        for place in done:
            del self._expected[place]
        return done
