"""Resource quantities in their canonical text, as a real server stores them."""

from __future__ import annotations

from functools import lru_cache

from headgate.apiserver.messages import Json
from headgate.model.quantity import NANOS, Quantity, parse_quantity

_MILLI = NANOS // 1000


@lru_cache(maxsize=4096)
def _canonical(text: str) -> str:
    """Nothing finer than a thousandth is kept; it is rounded up, so that asking never becomes asking for nothing."""
    quantity = parse_quantity(text)
    if quantity.nanos % _MILLI:
        quantity = Quantity(-(-quantity.nanos // _MILLI) * _MILLI, quantity.notation)
    return str(quantity)


def canonical_amounts(amounts: Json) -> Json:
    """The same amounts by resource name, the very same mapping when all were canonical; raises InvalidQuantity."""
    canonical = {
        name: _canonical(amount if isinstance(amount, str) else str(amount)) for name, amount in amounts.items()
    }
    return amounts if canonical == amounts else canonical


def with_canonical_amounts(owner: Json, fields: tuple[str, ...]) -> Json:
    """The owner with these fields, where set, in canonical amounts; the very same when nothing changes."""
    changed = {
        field: canonical
        for field in fields
        if owner.get(field) and (canonical := canonical_amounts(owner[field])) is not owner[field]
    }
    return {**owner, **changed} if changed else owner
