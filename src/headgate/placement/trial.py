"""What if these pods left and those came? Tried on the table itself, and taken back."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from types import TracebackType

from msgspec import Struct, structs

from headgate.model.keys import Key
from headgate.model.pod import Pod
from headgate.placement.placer import NoPlacement, Placement, Placer
from headgate.placement.plugins import Mask
from headgate.placement.table import NodeTable


class ArrivedPod(Struct, frozen=True, gc=False):
    pod: Key


class DepartedPod(Struct, frozen=True, gc=False):
    pod: Pod
    node: str


class PlacementTrial:
    """Pods are released and charged while the block lasts; then every charge, port and census is as it was before.

    Trials nest; an inner one must end before anything more happens in the outer one.
    """

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._done: list[ArrivedPod | DepartedPod] = []

    def __enter__(self) -> PlacementTrial:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, trouble: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.back_to(0)

    def leave(self, pod: Key) -> bool:
        """The pod gives back what it was charged; False when it was charged nothing."""
        charge = self._nodes.charge_of(pod)
        if charge is None:
            return False
        node, charged = charge
        self._nodes.release(pod)
        self._done.append(DepartedPod(charged, node))
        return True

    def take(self, pod: Pod, node: str) -> None:
        """The pod takes its requests on that node, and on no other."""
        self.leave(pod.key)
        self._nodes.charge(pod, node)
        self._done.append(ArrivedPod(pod.key))

    def mark(self) -> int:
        """How things stand now, to come back to."""
        return len(self._done)

    def back_to(self, mark: int) -> None:
        """Undo all that was done since the mark, the latest first."""
        while len(self._done) > mark:
            match self._done.pop():
                case ArrivedPod(pod=key):
                    self._nodes.release(key)
                case DepartedPod(pod=pod, node=node):
                    self._nodes.charge(pod, node)


WORTH_PLANNING = 5  # pods alike from which a plan is cheaper than asking for each


class TrialPlacements:
    """Which pods were placed where in the trial, which were not, and why the first of those was refused.

    Nominated nodes are tried before any other pod is placed, so that none takes the capacity victims left for them.
    """

    def __init__(self, placer: Placer, trial: PlacementTrial, pods: Sequence[Pod], within: Mask | None) -> None:
        self.placements: dict[int, Placement] = {}  # by the pod's place in the given order
        self.unplaced: dict[int, None] = {}
        self.refusal: tuple[int, NoPlacement] | None = None
        self._placer = placer
        self._trial = trial
        self._pods = pods
        self._within = within
        self._uncharged: list[int] = []  # placed, and not charged before the next pod is tried beside them
        self._refused: set[Hashable] = set()  # equivalence classes refused since the last placement

    def place(self, needed: int, most: int, order: Sequence[int]) -> None:
        """Places as many as fit, in this order, but for nominated ones no more than `most`.

        Stops as soon as fewer than needed can.
        """
        self._keep_nominated()
        others = [index for index in order if index not in self.placements]
        at = 0
        while at < len(others) and len(self._pods) - len(self.unplaced) >= needed and len(self.placements) < most:
            at += self._place_alike(others, at, most - len(self.placements)) or self._place_one(others[at])

    def _keep_nominated(self) -> None:
        """Place those whose nominated nodes will do; the others have none from here on."""
        waiting = [index for index, pod in enumerate(self._pods) if pod.nominated]
        at = 0
        while at < len(waiting):
            alone = self._placer.stands_alone(self._pods[waiting[at]])
            run = (alone and self._run(waiting, at)) or waiting[at : at + 1]
            kept = zip(run, self._kept([self._pods[index] for index in run]), strict=True)
            self._keep({index: found for index, found in kept if found is not None})
            at += len(run)
        if waiting:
            self._pods = [structs.replace(pod, nominated="") if pod.nominated else pod for pod in self._pods]

    def _kept(self, pods: list[Pod]) -> list[Placement | None]:
        self._charge()
        if len(pods) > 1:
            return self._placer.keep_each(pods, self._within)
        return [self._placer.keep(pod, self._within) for pod in pods]

    def _place_alike(self, others: list[int], at: int, most: int) -> int:
        """Place the next pods if they can be planned together; how many were."""
        if self._is_refused(others[at]):
            return 0
        run = self._run(others, at)[:most]
        if len(run) < WORTH_PLANNING:
            return 0
        self._charge()
        planned = self._placer.plan(self._pods[run[0]], len(run), self._within)
        self._keep(dict(zip(run, planned, strict=False)))
        return len(planned)

    def _run(self, indexes: list[int], at: int) -> list[int]:
        """From there on, the pods that can be planned with the first; none if it must be asked for by itself."""
        following = (self._pods[index] for index in itertools.islice(indexes, at, None))
        return indexes[at : at + self._placer.plan_serves(self._pods[indexes[at]], following)]

    def _place_one(self, index: int) -> int:
        """Place the next pod if it can be; one way or the other it is done with."""
        if self._is_refused(index):
            self.unplaced[index] = None
            return 1
        self._charge()
        match self._placer.place(self._pods[index], self._within):
            case Placement() as found:
                self._keep({index: found})
            case NoPlacement() as refusal:
                self.unplaced[index] = None
                self.refusal = self.refusal or (index, refusal)
                self._refused.add(self._placer.equivalence_class(self._pods[index]))
        return 1

    def _is_refused(self, index: int) -> bool:
        return bool(self._refused) and self._placer.equivalence_class(self._pods[index]) in self._refused

    def _keep(self, placements: dict[int, Placement]) -> None:
        self.placements |= placements
        self._uncharged += placements
        self._refused = set() if placements else self._refused

    def _charge(self) -> None:
        for index in self._uncharged:
            self._trial.take(self._pods[index], self.placements[index].node)
        self._uncharged = []
