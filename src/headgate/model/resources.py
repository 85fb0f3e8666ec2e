"""Exact amounts of resources: milli-CPU for cpu, whole bytes or devices for all else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from headgate.model.quantity import LARGEST, NANOS, Notation, Quantity

CPU, MEMORY = "cpu", "memory"
HUGE_PAGES = "hugepages-"
LARGEST_REQUEST = 2**52
"""What asks for more counts as asking for this much: 4Pi bytes, which no node has. A hundredfold fits 64 bits, it is
exact as a float, and hundreds of such amounts can be added up in an array."""
_IN_BYTES = frozenset({MEMORY, "ephemeral-storage"})


class Resources(Struct, frozen=True, gc=False):
    """Exact amounts by resource name, sorted by name; a name that is missing is zero.

    Build it with `Resources.of`, which sorts; equal amounts are then equal and hash alike.
    """

    items: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, amounts: Mapping[str, int]) -> Resources:
        return cls(tuple(sorted(amounts.items())))

    def __getitem__(self, name: str) -> int:
        for known, amount in self.items:
            if known == name:
                return amount
        return 0

    def asks_for(self, name: str) -> bool:
        return self[name] > 0

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(self.items)

    def __add__(self, other: Resources) -> Resources:
        return total((self, other))

    def __sub__(self, other: Resources) -> Resources:
        return self + Resources(tuple((name, -amount) for name, amount in other.items))

    def largest(self, other: Resources) -> Resources:
        """Name by name, the larger of the two amounts."""
        names = {name for name, _ in self.items} | {name for name, _ in other.items}
        return Resources.of({name: max(self[name], other[name]) for name in names})


def saturated(requests: Resources) -> tuple[str, ...]:
    """The names of which so much is requested that the exact amount is not known."""
    names: tuple[str, ...] = ()
    for name, amount in requests.items:
        if amount >= LARGEST_REQUEST:
            names = (*names, name)
    return names


def total(parts: Iterable[Resources]) -> Resources:
    """The sum of all parts."""
    amounts: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items:
            amounts[name] = amounts.get(name, 0) + amount
    return Resources.of(amounts)


def amount_text(name: str, amount: int) -> str:
    """The amount of that resource as a quantity, such as 500m, 2Gi or 4; saturated, as it is when it is read again."""
    amount = max(-LARGEST, min(LARGEST, amount))
    if name == CPU:
        return str(Quantity(amount * (NANOS // 1000)))
    in_bytes = name in _IN_BYTES or name.startswith(HUGE_PAGES)
    return str(Quantity(amount * NANOS, Notation.BINARY if in_bytes else Notation.DECIMAL))
