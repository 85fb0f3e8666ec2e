"""Who manages which field: managedFields of every write, and server-side apply.

`paths` has sets of fields and their form in objects, `typed` how the values of a kind are merged and what two of them
have to do with each other, `managers` the rules: ownership, conflicts and what an apply removes.
"""

from headgate.apiserver.managedfields.managers import (
    FieldTracker,
    unless_only_times_differ,
    with_fields,
    without_fields,
)

__all__ = ["FieldTracker", "unless_only_times_differ", "with_fields", "without_fields"]
