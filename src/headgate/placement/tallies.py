"""Amounts by row for whoever looks for pods by their labels, found from a pod's labels without asking all of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from headgate.model.affinity import Selector
from headgate.model.selectors import Operator
from headgate.placement.columns import Amounts, padded

T = TypeVar("T", bound=Hashable)
Pair = tuple[str, str]


class Tallies(Generic[T]):
    """By what looks for pods, how much it found on each row. `selector_of` says which labels these pods must have."""

    def __init__(self, selector_of: Callable[[T], Selector]) -> None:
        self._selector_of = selector_of
        self._amounts: dict[T, Amounts] = {}
        self._by_pair: dict[Pair, dict[T, None]] = {}  # those that look for a label with certain values only
        self._others: dict[T, None] = {}

    def __len__(self) -> int:
        return len(self._amounts)

    def __iter__(self) -> Iterator[T]:
        return iter(self._amounts)

    def get(self, seeker: T) -> Amounts | None:
        return self._amounts.get(seeker)

    def put(self, seeker: T, amounts: Amounts) -> Amounts:
        self._amounts[seeker] = amounts
        for looking in self._places_of(seeker):
            looking[seeker] = None
        return amounts

    def drop(self, seeker: T) -> None:
        del self._amounts[seeker]
        for looking in self._places_of(seeker):
            del looking[seeker]
        for pair in _wanted(self._selector_of(seeker)):
            if not self._by_pair[pair]:
                del self._by_pair[pair]

    def seeking(self, labels: Mapping[str, str]) -> Iterator[tuple[T, Amounts]]:
        """Those who may look for a pod with these labels, each once: for all others one of the labels is wrong."""
        for seeker in self._others:
            yield seeker, self._amounts[seeker]
        for pair in labels.items():
            for seeker in self._by_pair.get(pair, ()):
                yield seeker, self._amounts[seeker]

    def clear(self, row: int) -> None:
        for amounts in self._amounts.values():
            amounts[row] = 0

    def grow(self, rows: int) -> None:
        self._amounts = {seeker: padded(amounts, rows) for seeker, amounts in self._amounts.items()}

    def _places_of(self, seeker: T) -> Iterable[dict[T, None]]:
        pairs = _wanted(self._selector_of(seeker))
        return [self._by_pair.setdefault(pair, {}) for pair in pairs] if pairs else [self._others]


def _wanted(selector: Selector) -> list[Pair]:
    """Labels of which a pod must have one; none where the selector does not say so plainly."""
    for part in selector or ():
        if part.operator is Operator.IN:
            return [(part.key, value) for value in dict.fromkeys(part.values)]
    return []
