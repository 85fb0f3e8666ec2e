"""ClusterQueues and Cohorts as a quota tree, with the flavors each queue offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headgate.model.queues import ClusterQueue, Cohort, Quota, ResourceGroup
from headgate.quota.tree import Account, FlavorResource, Forest, QuotaNode


class FlavorOption(NamedTuple):
    """One flavor of a resource group of a queue, with the accounts of all resources of the group."""

    flavor: str
    accounts: Mapping[str, Account]


FlavorOptions = Mapping[str, tuple[FlavorOption, ...]]
"""The flavors a queue has for each resource, in the order they are tried."""


class ClusterQueueNode(QuotaNode):
    __slots__ = ("_flavor_options", "queue")

    def __init__(self, queue: ClusterQueue) -> None:
        super().__init__(queue.name, queue.cohort, quotas_of(queue.groups), queue.fair_weight, is_queue=True)
        self.queue = queue
        self._flavor_options: dict[str, tuple[FlavorOption, ...]] | None = None

    @property
    def flavor_options(self) -> FlavorOptions:
        """The flavors of the first group that covers a resource."""
        if self._flavor_options is None:
            self._flavor_options = {}
            for group in self.queue.groups:
                flavor_options = tuple(self._flavor_option(one.flavor, group.resources) for one in group.flavors)
                self._flavor_options = dict.fromkeys(group.resources, flavor_options) | self._flavor_options
        return self._flavor_options

    def _flavor_option(self, flavor: str, resources: Sequence[str]) -> FlavorOption:
        return FlavorOption(
            flavor, {resource: self.accounts[FlavorResource(flavor, resource)] for resource in resources}
        )


def cohort_forest(queues: Sequence[ClusterQueue], cohorts: Sequence[Cohort]) -> Forest[ClusterQueueNode]:
    nodes = [QuotaNode(cohort.name, cohort.parent, quotas_of(cohort.groups), cohort.fair_weight) for cohort in cohorts]
    return Forest([ClusterQueueNode(queue) for queue in queues], nodes)


def quotas_of(groups: Sequence[ResourceGroup]) -> dict[FlavorResource, Quota]:
    return {
        FlavorResource(flavor.flavor, resource): quota
        for group in groups
        for flavor in group.flavors
        for resource, quota in flavor.quotas
    }
