"""The units of preemption, a pod by itself or a gang preempted whole; and the list of all pods that run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from zlib import crc32

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from headgate.model.keys import Key
from headgate.model.pod import GroupKey, Pod
from headgate.placement.table import PODS, Amounts, Columns, NodeTable, padded

FIRST_LINES = 256
NOWHERE = -1
ALONE = -1
NEVER = -(1 << 62)
UNKNOWN = float("nan")

Times = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Standing(Struct, frozen=True):
    """How a running pod stands against being preempted."""

    priority: int  # what a preemptor must exceed
    gang: GroupKey | None = None
    min_count: int = 0  # with fewer running pods the gang is broken
    whole: bool = False  # the gang is preempted whole or not at all
    preempts: bool = True  # when it waits again, it may preempt others


class Unit(Struct, frozen=True, gc=False):
    """Pods that are evicted together or not at all."""

    key: Key | GroupKey
    priority: int
    pods: tuple[Pod, ...]  # the running ones, wherever they are


class Running:
    """All pods on nodes as arrays, one line a pod, with their standing. Follows the table pod by pod.

    What comes and goes is only noted; the arrays are brought up to date when someone asks for them.
    """

    def __init__(self, nodes: NodeTable, standing: Callable[[Pod], Standing]) -> None:
        self.nodes = nodes
        self._standing = standing
        self._news: dict[Key, tuple[Pod, int] | None] = {}
        self._latest: dict[Key, Pod] = {}  # looks of running pods that the table was not charged with
        self._lines: dict[Key, int] = {}
        self._free = list(range(FIRST_LINES - 1, -1, -1))
        self.pods: list[Pod | None] = [None] * FIRST_LINES
        self.rows = np.full(FIRST_LINES, NOWHERE, dtype=np.int64)
        self.priorities = np.zeros(FIRST_LINES, dtype=np.int64)
        self.draws = np.zeros(FIRST_LINES, dtype=np.int64)  # settles ties between pods
        self.gangs = np.full(FIRST_LINES, ALONE, dtype=np.int64)
        self.whole = np.zeros(FIRST_LINES, dtype=np.bool_)
        self.returning = np.full(FIRST_LINES, NEVER, dtype=np.int64)  # the priority with which it would preempt again
        self.terminating = np.zeros(FIRST_LINES, dtype=np.bool_)  # being deleted already
        self.started = np.full(FIRST_LINES, UNKNOWN)
        self.checkpointed = np.full(FIRST_LINES, UNKNOWN)
        self.checkpoint_every = np.full(FIRST_LINES, UNKNOWN)
        self.requests = Columns(FIRST_LINES)
        self.scored = Columns(FIRST_LINES)
        self.gang_list = GangLines()
        nodes.follow(self)

    def changed(self, pods: Iterable[Pod]) -> None:
        """These pods look like this now, or their standing is another; those that do not run are passed over."""
        self._latest.update((pod.key, pod) for pod in pods)

    def refresh(self) -> None:
        """Take in who came and went since the last look, and who changed."""
        for key, news in self._news.items():
            if news is None:
                self._forget(key)
            else:
                self._note(*news)
        self._news.clear()
        for key, pod in self._latest.items():
            line = self._lines.get(key)
            if line is not None and _same_run(self.pod_at(line), pod):
                self._write(line, pod, int(self.rows[line]))
        self._latest.clear()

    def line_of(self, pod: Pod) -> int | None:
        """Where this very pod stands in the arrays; None when it does not run."""
        line = self._lines.get(pod.key)
        return line if line is not None and self.pod_at(line).uid == pod.uid else None

    def lines_of(self, pods: Iterable[Key]) -> list[int]:
        """Where those of these pods that run stand in the arrays."""
        return [line for pod in pods if (line := self._lines.get(pod)) is not None]

    def pod_at(self, line: int) -> Pod:
        pod = self.pods[line]
        assert pod is not None, f"line {line} is empty"
        return pod

    # as the table's census

    def count(self, pod: Pod, row: int, sign: int) -> None:
        self._news[pod.key] = (pod, row) if sign > 0 else None

    def clear(self, row: int) -> None:
        self.refresh()
        for line in np.flatnonzero(self.rows == row).tolist():
            self._forget(self.pod_at(line).key)

    def grow(self, rows: int) -> None:
        """More nodes change nothing here: lines are pods."""

    def _note(self, pod: Pod, row: int) -> None:
        line = self._lines.get(pod.key)
        if line is None:
            line = self._lines[pod.key] = self._take_line()
        elif self.rows[line] == row and _same_run(self.pod_at(line), pod):
            return  # it left for a trial and is back; what is known of it here may be newer
        self._write(line, pod, row)

    def _write(self, line: int, pod: Pod, row: int) -> None:
        standing = self._standing(pod)
        self.gang_list.leave(int(self.gangs[line]))
        self.pods[line] = pod
        self.rows[line] = row
        self.priorities[line] = standing.priority
        self.draws[line] = _draw(pod.key)
        self.gangs[line] = self.gang_list.join(standing)
        self.whole[line] = standing.whole and standing.gang is not None
        self.returning[line] = pod.priority if standing.preempts and pod.owner is not None else NEVER
        self.terminating[line] = pod.deleted is not None
        self.started[line] = _known(pod.started)
        self.checkpointed[line] = _known(pod.checkpointed)
        self.checkpoint_every[line] = _known(pod.checkpoint_every)
        self.requests.put(line, pod.shape.requests)
        self.requests.open(PODS)[line] = 1
        self.scored.put(line, pod.shape.scored_requests)

    def _forget(self, key: Key) -> None:
        line = self._lines.pop(key, None)
        if line is None:
            return
        self.gang_list.leave(int(self.gangs[line]))
        self.gangs[line] = ALONE
        self.rows[line] = NOWHERE
        self.pods[line] = None
        self._free.append(line)

    def _take_line(self) -> int:
        if not self._free:
            self._grow()
        return self._free.pop()

    def _grow(self) -> None:
        old = len(self.pods)
        new = old * 2
        self.pods.extend([None] * (new - old))
        self.rows = _longer(self.rows, new, NOWHERE)
        self.gangs = _longer(self.gangs, new, ALONE)
        self.priorities, self.draws = padded(self.priorities, new), padded(self.draws, new)
        self.returning = _longer(self.returning, new, NEVER)
        self.whole, self.terminating = (
            np.concatenate([flags, np.zeros(new - old, dtype=np.bool_)]) for flags in (self.whole, self.terminating)
        )
        self.started, self.checkpointed, self.checkpoint_every = (
            np.concatenate([times, np.full(new - old, UNKNOWN)])
            for times in (self.started, self.checkpointed, self.checkpoint_every)
        )
        self.requests.grow(new)
        self.scored.grow(new)
        self._free.extend(range(new - 1, old - 1, -1))


class GangLines:
    """The gangs that have running pods, by number; a number is used again when its gang is gone."""

    def __init__(self) -> None:
        self.keys: list[GroupKey | None] = []
        self.min_counts: list[int] = []
        self._members: list[int] = []
        self._numbers: dict[GroupKey, int] = {}
        self._free: list[int] = []

    def join(self, standing: Standing) -> int:
        """One more pod of its gang; ALONE when it has none."""
        if standing.gang is None:
            return ALONE
        number = self._numbers.get(standing.gang)
        if number is None:
            number = self._numbers[standing.gang] = self._take()
            self.keys[number] = standing.gang
        self.min_counts[number] = standing.min_count
        self._members[number] += 1
        return number

    def leave(self, number: int) -> None:
        """One pod fewer."""
        if number == ALONE:
            return
        self._members[number] -= 1
        key = self.keys[number]
        if self._members[number] == 0 and key is not None:
            del self._numbers[key]
            self.keys[number] = None
            self._free.append(number)

    def number_of(self, key: GroupKey) -> int:
        """ALONE for a gang without running pods."""
        return self._numbers.get(key, ALONE)

    def key_of(self, number: int) -> GroupKey:
        key = self.keys[number]
        assert key is not None, f"gang {number} is gone"
        return key

    def _take(self) -> int:
        if self._free:
            return self._free.pop()
        self.keys.append(None)
        self.min_counts.append(0)
        self._members.append(0)
        return len(self.keys) - 1


def _same_run(known: Pod, pod: Pod) -> bool:
    if known is pod:
        return True
    alike = known.uid == pod.uid and known.shape == pod.shape and known.labels == pod.labels
    return alike and (known.deleted is None) == (pod.deleted is None)


def _known(time: float | None) -> float:
    return UNKNOWN if time is None else time


def _longer(column: Amounts, lines: int, fill: int) -> Amounts:
    return np.concatenate([column, np.full(lines - len(column), fill, dtype=np.int64)])


def _draw(key: Key) -> int:
    """A number for the key, the same in every process."""
    raw = str(key).encode()
    return crc32(raw) << 31 | crc32(raw, 0x5EED) >> 1
