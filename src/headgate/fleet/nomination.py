"""Nomination: to which worker clusters a workload is dispatched.

The all-at-once dispatcher nominates every connected cluster. The incremental one nominates them in rounds. Any other
dispatcher is another controller, whose nominations are taken as they are.
"""

from __future__ import annotations

from msgspec import Struct

from headgate.model.settings import ALL_AT_ONCE, INCREMENTAL, MultiKueueSettings

ROUND_SECONDS = 300.0
"""How long the clusters of one round of the incremental dispatcher have before the next ones are added."""
MOST_CLUSTERS = 20  # that a Workload can name


class Workers(Struct, frozen=True):
    """The worker clusters of a MultiKueueConfig, in order, and those of them that are connected."""

    clusters: tuple[str, ...]
    connected: frozenset[str]


class Nominated(Struct, frozen=True):
    """The clusters to dispatch to, since when, and when the next round starts, if there is one."""

    clusters: tuple[str, ...]
    at: float
    next_round: float | None = None


def nominate(settings: MultiKueueSettings, workers: Workers, last: Nominated, now: float) -> Nominated:
    """The nominations now, after the `last` ones.

    A cluster that was nominated stays so while its connection is lost; one that the config does not have any more is
    dropped.
    """
    if settings.dispatcher not in (ALL_AT_ONCE, INCREMENTAL):
        return last
    kept = tuple(name for name in workers.clusters if name in last.clusters)
    left = [name for name in workers.clusters if name in workers.connected and name not in kept]
    over = last.at + ROUND_SECONDS
    if settings.dispatcher == INCREMENTAL and kept and last.at <= now < over:
        return Nominated(kept, last.at, over if left else None)
    added = left[: settings.step_size] if settings.dispatcher == INCREMENTAL else left
    clusters = tuple(name for name in workers.clusters if name in kept or name in added)[:MOST_CLUSTERS]
    at = now if added else last.at
    return Nominated(clusters, at, at + ROUND_SECONDS if len(left) > len(added) else None)
