"""Gangs at the door: their members wait until there are enough of them, then stand in line as one."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from headgate.engine.scheduler.groups import Described, Groups, Undescribed
from headgate.model.groups import Gang, GroupKey
from headgate.model.keys import Key
from headgate.model.pod import Pod
from headgate.queueing.queue import PodQueue, Waiting, same_demand

PLUGIN = "GangScheduling"


class InLine(Struct, frozen=True):
    """The members that want a node go for it together: at least `needed` of them get one, or none does."""

    needed: int
    topology: str = ""


class ByThemselves(Struct, frozen=True):
    """The gang has started, or is none: whoever comes now goes by itself."""


Stand = InLine | ByThemselves | Undescribed
BY_THEMSELVES = ByThemselves()


class Team(Struct):
    """The known pods of one group; each is in exactly one of three places."""

    ready: dict[Key, Pod] = field(default_factory=dict)  # nothing but the gang holds them
    gated: dict[Key, Pod] = field(default_factory=dict)  # something else does
    seated: dict[Key, str] = field(default_factory=dict)  # they have a node, and which
    stand: Stand | None = None  # how it stood when it was last looked at
    described_anew: bool = False  # since then
    failures: int = 0  # attempts in a row after which a binding did not take hold
    troubled: bool = False  # that is so of the last one

    def __len__(self) -> int:
        return len(self.ready) + len(self.gated) + len(self.seated)

    def leave(self, key: Key) -> None:
        self.ready.pop(key, None)
        self.gated.pop(key, None)
        self.seated.pop(key, None)


class Gangs:
    """Looks at a gang once a turn however many members came, and at all of them only when its stand has changed."""

    def __init__(self, groups: Groups, queue: PodQueue) -> None:
        self._groups = groups
        self._queue = queue
        self._teams: dict[GroupKey, Team] = {}
        self._touched: dict[GroupKey, dict[Key, None]] = {}

    def ready(self, pod: Pod) -> None:
        """Nothing else keeps the member from being scheduled."""
        assert pod.group is not None
        team = self._team(pod.group)
        known = team.ready.get(pod.key)
        team.leave(pod.key)
        team.ready[pod.key] = pod
        if known is None or not same_demand(known, pod):
            self._touch(pod.group, pod.key)

    def gated(self, pod: Pod) -> None:
        """Something else holds the member, and so its whole gang."""
        assert pod.group is not None
        team = self._team(pod.group)
        known = pod.key in team.gated
        team.leave(pod.key)
        team.gated[pod.key] = pod
        if not known:
            self._touch(pod.group, pod.key)

    def seated(self, pod: Pod, node: str) -> None:
        """The member has a node, or is about to; one that is leaving it is as good as gone."""
        if pod.group is None or pod.deleted is not None:
            self.gone(pod)
            return
        team = self._team(pod.group)
        if team.seated.get(pod.key) != node:
            team.leave(pod.key)
            team.seated[pod.key] = node
            self._touch(pod.group, pod.key)
        if pod.node and team.failures and not self.is_one(pod):
            team.failures = 0

    def failed(self, pod: Pod) -> bool:
        """A binding of the member did not take hold: a gang that lacks it must rest before it tries again.

        True for the first one of an attempt of the gang.
        """
        team = self._teams.get(pod.group) if pod.group is not None else None
        if team is None or team.troubled or not self.is_one(pod):
            return False
        team.failures += 1
        team.troubled = True
        return True

    def is_one(self, pod: Pod) -> bool:
        """Whether the members of its gang that want a node wait for each other."""
        team = self._teams.get(pod.group) if pod.group is not None else None
        return team is not None and not isinstance(self._judge(team), ByThemselves)

    def gone(self, pod: Pod) -> None:
        team = self._teams.get(pod.group) if pod.group is not None else None
        if team is None or pod.group is None:
            return
        team.leave(pod.key)
        self._touch(pod.group, pod.key)

    def touch_all(self, group: GroupKey) -> None:
        """What describes the group has changed."""
        team = self._teams.get(group)
        if team is not None:
            team.described_anew = True
            self._touch(group, *team.ready)

    def settle(self, now: float) -> Iterator[tuple[Pod, Stand]]:
        """Every member whose stand is news, with that stand. Gangs get their places in line."""
        touched, self._touched = self._touched, {}
        for group, keys in touched.items():
            yield from self._look_at(group, keys, now)

    def members(self, group: GroupKey) -> list[Pod]:
        """Those that want a node, in their order: the oldest first."""
        return sorted(self._teams[group].ready.values(), key=lambda pod: (pod.created, pod.key))

    def stand(self, group: GroupKey) -> Stand:
        return self._judge(self._teams[group])

    def place_of(self, pod: Pod) -> Key:
        """Under which key the pod, or its gang for it, stands in line."""
        team = self._teams.get(pod.group) if pod.group is not None else None
        return pod.group.line_key if pod.group and team and isinstance(team.stand, InLine) else pod.key

    def topology(self, group: GroupKey) -> str:
        """The node label of which all its members must find the same value; empty when they may be anywhere."""
        team = self._teams.get(group)
        member = next(iter(team.ready.values()), None) if team is not None else None
        described = self._groups.describe(member) if member is not None else None
        return described.group.topology if isinstance(described, Described) else ""

    def seats(self, group: GroupKey) -> tuple[str, ...]:
        """The nodes of the members that have one."""
        return tuple(self._teams[group].seated.values())

    def _look_at(self, group: GroupKey, keys: dict[Key, None], now: float) -> Iterator[tuple[Pod, Stand]]:
        team = self._teams[group]
        if not len(team):
            del self._teams[group]
            self._queue.withdraw(group.line_key)
            return
        stand, before = self._judge(team), team.stand
        team.stand = stand
        concerned = keys if stand == before and not team.described_anew else dict.fromkeys(team.ready)
        team.described_anew = False
        for key in list(concerned):
            if key in team.ready:
                yield team.ready[key], stand
        self._stand_in_line(group, team, stand, now)

    def _judge(self, team: Team) -> Stand:
        member = next(iter((team.ready or team.gated).values()), None)
        if member is None:
            return BY_THEMSELVES
        described = self._groups.describe(member)
        if not isinstance(described, Described):
            return described
        gang = described.group.gang
        if gang is None or len(team.seated) >= gang.min_count:
            return BY_THEMSELVES
        return _not_yet(team, gang) or InLine(gang.min_count - len(team.seated), described.group.topology)

    def _stand_in_line(self, group: GroupKey, team: Team, stand: Stand, now: float) -> None:
        if not isinstance(stand, InLine):
            self._queue.withdraw(group.line_key)
            return
        team.troubled = False
        members = self.members(group)
        waiting = Waiting(members[0], since=now, group=group, pods=len(members), failures=team.failures)
        self._queue.offer_group(waiting, now)

    def _team(self, group: GroupKey) -> Team:
        return self._teams.setdefault(group, Team())

    def _touch(self, group: GroupKey, *keys: Key) -> None:
        self._touched.setdefault(group, {}).update(dict.fromkeys(keys))


def _not_yet(team: Team, gang: Gang) -> Undescribed | None:
    if len(team) < gang.min_count:
        return Undescribed(f"waiting for its gang to have at least {gang.min_count} pods")
    if team.gated:
        first = min(team.gated)
        return Undescribed(f"waiting for the gates of {first.name}, a member of its gang")
    return None
