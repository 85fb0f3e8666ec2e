"""Whether pods of a shape could run on the nodes of a flavor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headgate.model.affinity import NodeTerm, Toleration
from headgate.model.node import Taint, TaintEffect
from headgate.model.pod import PodShape
from headgate.model.queues import ResourceFlavor
from headgate.model.selectors import Requirement
from headgate.quota import wording


def refusal(shape: PodShape, flavor: ResourceFlavor) -> str:
    """Why not; empty when they could."""
    if not flavor.node_taints and not flavor.node_labels:
        return ""
    taint = _untolerated(flavor.node_taints, (*shape.tolerations, *flavor.tolerations))
    if taint is not None:
        return wording.untolerated(taint, flavor.name)
    return "" if _is_wanted(shape, flavor.node_labels) else wording.wrong_affinity(flavor.name)


def _untolerated(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> Taint | None:
    for taint in taints:
        binds = taint.effect is not TaintEffect.PREFER_NO_SCHEDULE
        if binds and not any(toleration.tolerates(taint) for toleration in tolerations):
            return taint
    return None


def _is_wanted(shape: PodShape, labels: Mapping[str, str]) -> bool:
    """Only what is said about the keys of this flavor's own labels counts; nodes may well have other labels too."""
    if any(labels[key] != value for key, value in shape.node_selector if key in labels):
        return False
    terms = [_about(term, labels) for term in shape.required_terms or ()]
    if not all(terms):
        return True  # one of the alternatives says nothing about this flavor
    return not terms or any(all(part.holds(labels) for part in term) for term in terms)


def _about(term: NodeTerm, labels: Mapping[str, str]) -> tuple[Requirement, ...]:
    return tuple(part for part in term.expressions if part.key in labels)
