"""Preemption for gangs without workload awareness: victims for one pod after the other, dropped if too few pods fit."""

from __future__ import annotations

from msgspec import Struct, field, structs

from headgate.model.pod import Pod
from headgate.placement.placer import Placement, Placer
from headgate.placement.trial import PlacementTrial
from headgate.preemption.receipts import Receipt, VictimLine
from headgate.preemption.search import ON_CANDIDATES, ON_NEIGHBOURS, NoPlan, Plan, Preemption, Preemptor
from headgate.preemption.solver.problem import Criterion
from headgate.preemption.steps import SearchDomain, group_domains
from headgate.preemption.units import Unit

POLICY = "pod by pod"


class CollectedPlan(Struct):
    """The pods of a group placed so far, and whom they preempt together."""

    domain: str
    placements: list[tuple[Pod, str]] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)
    lines: list[VictimLine] = field(default_factory=list)
    violations: int = 0
    gangs_broken: int = 0
    candidates: int = 0  # for the member that had most

    def plan(self, preemptor: Preemptor) -> Plan:
        criteria = ((Criterion.VIOLATIONS, self.violations), (Criterion.VICTIMS, sum(line.pods for line in self.lines)))
        receipt = Receipt(
            preemptor=preemptor.key,
            policy=POLICY,
            domain=self.domain,
            criteria=criteria,
            compared=tuple(f"{name} {count}" for name, count in criteria),
            victims=tuple(self.lines),
            gangs_broken=self.gangs_broken,
            candidates=self.candidates,
            domains=1,
        )
        return Plan(tuple(self.placements), tuple(self.units), receipt)


class PodByPodPreemption(Preemption):
    """Plans for each member of a group as for a single pod, in the given order, beside the members before it.

    The victims of earlier members are gone for later ones, which use what those leave free. A group of which fewer
    members get a node than are needed has no plan: the victims found for the others are dropped.
    """

    def plan(self, preemptor: Preemptor, placer: Placer, now: float) -> Plan | NoPlan:
        if preemptor.single:
            return super().plan(preemptor, placer, now)
        needed, best = max(1, preemptor.needed), CollectedPlan("")
        with placer.nominations.set_aside(preemptor.pods):
            for domain in group_domains(self._nodes, placer, preemptor.pods, needed, preemptor.topology):
                found = self._in_domain(domain, preemptor, placer, now)
                if len(found.placements) == needed:
                    return found.plan(preemptor)
                best = max(best, found, key=lambda each: len(each.placements))
        placed = f"{len(best.placements)} of the {needed} pods its gang needs"
        return NoPlan(f"one by one preemption places {placed}", best.candidates, ON_CANDIDATES | ON_NEIGHBOURS)

    def _in_domain(self, domain: SearchDomain, preemptor: Preemptor, placer: Placer, now: float) -> CollectedPlan:
        found = CollectedPlan(domain.name)
        with PlacementTrial(self._nodes) as trial:
            for pod, pinned in zip(preemptor.pods, domain.pods, strict=True):
                asking = structs.replace(pinned, nominated="")
                node = self._node_for(asking, found, placer, trial, now)
                if node is not None:
                    trial.take(asking, node)
                    found.placements.append((pod, node))
                if len(found.placements) == domain.needed:
                    break
        return found

    def _node_for(
        self, pod: Pod, found: CollectedPlan, placer: Placer, trial: PlacementTrial, now: float
    ) -> str | None:
        """The node that fits the pod, if need be without victims, which are gone from then on."""
        placed = placer.place(pod)
        if isinstance(placed, Placement):
            return placed.node
        plan = super().plan(Preemptor(pod.key, (pod,), 1, pod.priority), placer, now)
        if isinstance(plan, NoPlan):
            found.candidates = max(found.candidates, plan.candidates)
            return None
        for unit in plan.victims:
            for victim in unit.pods:
                trial.leave(victim.key)
        found.units += plan.victims
        found.lines += plan.receipt.victims
        found.violations += dict(plan.receipt.criteria)[Criterion.VIOLATIONS]
        found.gangs_broken += plan.receipt.gangs_broken
        found.candidates = max(found.candidates, plan.receipt.candidates)
        return plan.placements[0][1]
