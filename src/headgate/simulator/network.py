"""How clusters reach one another: which of them are cut off, and for how long."""

from __future__ import annotations

OUTSIDE = ""
"""Where our process of a scenario with one cluster runs: outside of it."""


class Network:
    """A cluster that is cut off reaches no other and is reached by none; what runs inside goes on."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}  # by cluster that is cut off

    def reaches(self, place: str, cluster: str) -> bool:
        """Whether a process that runs in `place` reaches the API server of the cluster."""
        return place == cluster or not (place in self._until or cluster in self._until)

    def cut_off(self, cluster: str, until: float) -> None:
        self._until[cluster] = max(self._until.get(cluster, until), until)

    def reconnect(self, cluster: str, now: float) -> None:
        """Connects the cluster again, unless it is cut off for longer."""
        if self._until.get(cluster, now) <= now:
            self._until.pop(cluster, None)
