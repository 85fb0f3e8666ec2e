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
    __slots__ = ("flavor_options", "queue")

    def __init__(self, queue: ClusterQueue) -> None:
        super().__init__(queue.name, queue.cohort, quotas_of(queue.groups), queue.fair_weight, is_queue=True)
        self.queue = queue
        self.flavor_options: FlavorOptions = {}  # the flavors of the first group that covers a resource

    def open_flavors(self) -> None:
        """To be called once the node has its place in the tree."""
        options: dict[str, tuple[FlavorOption, ...]] = {}
        for group in self.queue.groups:
            of_group = tuple(self._flavor_option(one.flavor, group.resources) for one in group.flavors)
            options = dict.fromkeys(group.resources, of_group) | options
        self.flavor_options = options

    def _flavor_option(self, flavor: str, resources: Sequence[str]) -> FlavorOption:
        return FlavorOption(
            flavor, {resource: self.accounts[FlavorResource(flavor, resource)] for resource in resources}
        )


def cohort_forest(queues: Sequence[ClusterQueue], cohorts: Sequence[Cohort]) -> Forest[ClusterQueueNode]:
    nodes = [QuotaNode(cohort.name, cohort.parent, quotas_of(cohort.groups), cohort.fair_weight) for cohort in cohorts]
    forest = Forest([ClusterQueueNode(queue) for queue in queues], nodes)
    for node in forest.queues.values():
        node.open_flavors()
    return forest


def quotas_of(groups: Sequence[ResourceGroup]) -> dict[FlavorResource, Quota]:
    return {
        FlavorResource(flavor.flavor, resource): quota
        for group in groups
        for flavor in group.flavors
        for resource, quota in flavor.quotas
    }
