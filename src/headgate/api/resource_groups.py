"""Resource groups of cluster queues and cohorts from the wire: quota by flavor and resource."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.api.amounts import amount_at
from headgate.api.wire import Wire
from headgate.model.queues import FlavorQuotas, Quota, ResourceGroup

Amount = str | int | float


class QuotaEntry(Wire, frozen=True):
    name: str
    nominal_quota: Amount
    borrowing_limit: Amount | None = None
    lending_limit: Amount | None = None


class FlavorEntry(Wire, frozen=True):
    name: str
    resources: list[QuotaEntry]


class ResourceGroupEntry(Wire, frozen=True):
    covered_resources: list[str]
    flavors: list[FlavorEntry]


def groups_of(entries: Sequence[ResourceGroupEntry] | None) -> tuple[ResourceGroup, ...]:
    """What `$.spec.resourceGroups` says, in order."""
    return tuple(_group(entry, f"$.spec.resourceGroups[{index}]") for index, entry in enumerate(entries or ()))


def _group(entry: ResourceGroupEntry, path: str) -> ResourceGroup:
    flavors = tuple(_flavor(flavor, f"{path}.flavors[{index}]") for index, flavor in enumerate(entry.flavors))
    return ResourceGroup(tuple(entry.covered_resources), flavors)


def _flavor(entry: FlavorEntry, path: str) -> FlavorQuotas:
    quotas = [(quota.name, _quota(quota, f"{path}.resources[{i}]")) for i, quota in enumerate(entry.resources)]
    return FlavorQuotas(entry.name, tuple(quotas))


def _quota(entry: QuotaEntry, path: str) -> Quota:
    return Quota(
        nominal=amount_at(f"{path}.nominalQuota", entry.name, entry.nominal_quota),
        borrowing_limit=_limit(f"{path}.borrowingLimit", entry.name, entry.borrowing_limit),
        lending_limit=_limit(f"{path}.lendingLimit", entry.name, entry.lending_limit),
    )


def _limit(path: str, name: str, amount: Amount | None) -> int | None:
    return None if amount is None else amount_at(path, name, amount)
