"""The indexes of an Indexed Job: which completed, which failed for good, and which are to be tried next."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from msgspec import Struct, field

from headgate.api.owners import COMPLETION_INDEX, index_ranges
from headgate.model.objects import JobIndexes
from headgate.model.pod import Phase, Pod

FIRST_BACKOFF = 10.0  # seconds before a failed pod is replaced; doubles with each failure
LONGEST_BACKOFF = 600.0


class IndexProgress(Struct):
    """Kept for each Job, also for one that has no indexes."""

    completed: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)  # for good
    active: dict[str, int] = field(default_factory=dict)  # by uid of a pod
    failures: dict[int, dict[str, float]] = field(default_factory=dict)  # when each pod of an index was seen failed
    first_open: int = 0  # all indexes below are done

    def update(self, shown: JobIndexes, completions: int) -> None:
        """What the status of the Job has stays."""
        self.completed.update(*index_ranges(shown.completed, completions))
        self.failed.update(*index_ranges(shown.failed, completions))

    def add_pod(self, pod: Pod, now: float) -> None:
        index = index_of(pod)
        if index is None:
            return
        self.active.pop(pod.uid, None)
        if pod.phase is Phase.SUCCEEDED:
            self.completed.add(index)
        elif pod.deleted is None and pod.phase is Phase.FAILED:
            self.failures.setdefault(index, {}).setdefault(pod.uid, now)
        elif pod.deleted is None and pod.uid not in self.failures.get(index, {}):
            self.active[pod.uid] = index

    def delete_pod(self, uid: str) -> None:
        self.active.pop(uid, None)

    def fail(self, limit: int | None) -> None:
        """Indexes of which more pods failed than the limit allows failed for good."""
        if limit is not None:
            self.failed.update(index for index, pods in self.failures.items() if len(pods) > limit)
            self.failed -= self.completed

    def done(self, completions: int) -> int:
        return sum(index < completions for index in self.completed) + self.failed_below(completions)

    def failed_below(self, completions: int) -> int:
        return sum(index < completions for index in self.failed)

    def next_open(self, completions: int, taken: Collection[int]) -> Iterator[int]:
        """The indexes to be tried, the lowest first."""
        while self.first_open in self.completed or self.first_open in self.failed:
            self.first_open += 1
        for index in range(self.first_open, completions):
            if index not in self.completed and index not in self.failed and index not in taken:
                yield index

    def backoff_ends(self, index: int) -> float:
        return backoff_after(self.failures.get(index, {}).values())


def backoff_after(failures: Collection[float]) -> float:
    """When the next pod may be created after failures at these times."""
    if not failures:
        return 0.0
    return max(failures) + min(LONGEST_BACKOFF, FIRST_BACKOFF * 2.0 ** (len(failures) - 1))


def index_of(pod: Pod) -> int | None:
    text = pod.annotations.get(COMPLETION_INDEX, "")
    return int(text) if text.isascii() and text.isdigit() else None


def intervals_of(indexes: Iterable[int]) -> str:
    """The list of these indexes, as `0,2-4`."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
