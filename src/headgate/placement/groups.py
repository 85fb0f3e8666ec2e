"""Where would this group run? Seats for at least as many of its pods as are needed, or why there are none."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, structs

from headgate.model.pod import Pod
from headgate.placement.group_domains import RULE, GroupDomain, GroupDomains
from headgate.placement.placer import NoPlacement, Placement, Placer
from headgate.placement.plugins import Mask
from headgate.placement.seating import Seating
from headgate.placement.table import NodeTable
from headgate.placement.trial import Trial

ENOUGH_DOMAINS = 100  # that would do, of which the best is taken


class GroupPlacement(Struct, frozen=True):
    """Seats for these pods, for enough of them, and no room for those left; both in the order the pods were given."""

    seats: tuple[tuple[Pod, Placement], ...]
    left: tuple[Pod, ...]

    @property
    def worth(self) -> tuple[int, int]:
        """More seats are better, then higher scores."""
        return len(self.seats), sum(found.score for _, found in self.seats)


def place_group(
    placer: Placer, nodes: NodeTable, pods: Sequence[Pod], needed: int, topology: str = ""
) -> GroupPlacement | NoPlacement:
    """Seat the pods in order, each beside those before it: at least `needed` (and one) of them, or none.

    With a topology, all seats are on nodes with one and the same value of that label. The table is left as it was.
    """
    needed = max(1, needed)
    if len(pods) < needed:
        return placer.nowhere(RULE, f"the group has {len(pods)} pods and needs {needed} to start", frozenset())
    with placer.nominations.set_aside(pods):
        if topology:
            return _in_one_domain(placer, nodes, pods, needed, topology)
        return _seated(placer, nodes, pods, needed)


def _in_one_domain(
    placer: Placer, nodes: NodeTable, pods: Sequence[Pod], needed: int, topology: str
) -> GroupPlacement | NoPlacement:
    """The best of the domains that will do; the earlier of equally good ones."""
    domains = GroupDomains(placer, nodes, pods, needed, topology)
    found: list[GroupPlacement] = []
    refusals: list[NoPlacement] = []
    for domain in domains:
        match _seated(placer, nodes, pods, needed, domain):
            case GroupPlacement() as placement:
                found.append(placement)
            case NoPlacement() as refusal:
                refusals.append(refusal)
        if len(found) == ENOUGH_DOMAINS:
            break
    return max(found, key=lambda each: each.worth) if found else domains.refusal(refusals)


def _seated(
    placer: Placer, nodes: NodeTable, pods: Sequence[Pod], needed: int, domain: GroupDomain | None = None
) -> GroupPlacement | NoPlacement:
    within: Mask | None = domain.rows if domain is not None else None
    asking = [domain.told(pod) for pod in pods] if domain is not None else pods
    with Trial(nodes) as trial:
        seating = Seating(placer, trial, asking, within)
        seating.seat(needed)
    if len(seating.seats) < needed:
        return _refusal(seating, len(pods), needed, domain)
    seats = tuple((pods[index], seating.seats[index]) for index in sorted(seating.seats))
    return GroupPlacement(seats, tuple(pods[index] for index in sorted(seating.unseated)))


def _refusal(seating: Seating, pods: int, needed: int, domain: GroupDomain | None) -> NoPlacement:
    """Why the first pod that got no seat was refused, and how far the group came."""
    assert seating.refusal is not None, "a pod that was refused has a reason"
    index, why = seating.refusal
    where = f" within {domain.name}" if domain is not None else ""
    whom = f"pod {index + 1} of {pods}{where} ({len(seating.seats)} placed, {needed} needed)"
    return structs.replace(why, whom=whom)
