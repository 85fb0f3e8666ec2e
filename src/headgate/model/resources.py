"""Exact amounts of resources: milli-CPU for cpu, whole bytes or devices for all else.

And what the containers of a pod ask for and may use at most, before anything is added up, and what that comes to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

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
        return cls(tuple(sorted(amounts.items()) if len(amounts) > 1 else amounts.items()))

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


def saturated(*requests: Resources) -> tuple[str, ...]:
    """The names of which one of these requests so much that the exact amount is not known, sorted."""
    names: set[str] = set()
    for each in requests:
        for name, amount in each.items:
            if amount >= LARGEST_REQUEST:
                names.add(name)
    return tuple(sorted(names)) if names else ()


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


class ContainerNeeds(Struct, frozen=True, gc=False):
    """Of a container, or of a pod as a whole."""

    requests: Resources = Resources()
    limits: Resources = Resources()
    is_sidecar: bool = False


class TemplateNeeds(Struct, frozen=True, gc=False, cache_hash=True):
    """As a template says it; `overhead` empty where its runtime class is to say it."""

    containers: tuple[ContainerNeeds, ...] = ()
    init_containers: tuple[ContainerNeeds, ...] = ()
    whole_pod: ContainerNeeds | None = None
    overhead: Resources = Resources()
    runtime_class: str = ""
    claims: tuple[str, ...] = ()  # names of its resource claims


class PodParts(Struct, frozen=True, gc=False):
    """What the parts of one pod ask for, by resource."""

    containers: Sequence[Mapping[str, int]]
    steps: Sequence[Mapping[str, int]] = ()  # the init containers, in order
    sidecars: Sequence[bool] = ()  # which of the steps go on running
    whole_pod: Mapping[str, int] = {}
    overhead: Mapping[str, int] = {}


def total_requests(parts: PodParts) -> dict[str, int]:
    """The larger of running and starting, unless the pod itself says; overhead comes on top.

    Saturated: what comes to more than LARGEST_REQUEST counts as that.
    """
    running = _summed(parts.containers)
    if parts.steps:
        running, starting = _with_init_containers(running, parts.steps, parts.sidecars)
        for name, amount in starting.items():
            running[name] = max(running.get(name, 0), amount)
    running.update(parts.whole_pod)
    if parts.overhead:
        running = _summed((running, parts.overhead))
    return {name: min(amount, LARGEST_REQUEST) for name, amount in running.items()}


def is_asked_of_whole_pods(resource: str) -> bool:
    """Whether a pod can ask for it as a whole."""
    return resource in (CPU, MEMORY) or resource.startswith(HUGE_PAGES)


def _with_init_containers(
    running: dict[str, int], steps: Sequence[Mapping[str, int]], sidecars: Sequence[bool]
) -> tuple[dict[str, int], dict[str, int]]:
    """What runs in the end (with every sidecar), and the most that any step of starting needs at once."""
    beside: dict[str, int] = {}  # the sidecars started so far
    most: dict[str, int] = {}
    for step, is_sidecar in zip(steps, sidecars, strict=True):
        together = _summed((beside, step))
        for name, amount in together.items():
            most[name] = max(most.get(name, 0), amount)
        if is_sidecar:
            beside = together
    return _summed((running, beside)), most


def _summed(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    if not parts:
        return {}
    amounts = dict(parts[0])
    for part in parts[1:]:
        for name, amount in part.items():
            amounts[name] = amounts.get(name, 0) + amount
    return amounts
