"""Deployments and stateful sets that name a queue: it is their pods that wait in it, each for itself."""

from __future__ import annotations

from headgate.gates.wire_values import labels_of, spec_of, with_labels, with_spec
from headgate.model.admission import Admit, Inquiry, Question, Rules
from headgate.model.kueue_names import PRIORITY_CLASS, QUEUE_NAME
from headgate.model.quota_settings import PODS

PASSED_ON = (QUEUE_NAME, PRIORITY_CLASS)


def labels_passed_on(question: Question, rules: Rules) -> Inquiry:
    """Its pods are labelled with the queue and the class it names itself."""
    yield from ()
    own = labels_of(question.new)
    if PODS not in rules.quota.frameworks or not own.get(QUEUE_NAME):
        return Admit()
    template = with_labels(spec_of(question.new).get("template") or {}, {x: own[x] for x in PASSED_ON if x in own})
    return Admit(with_spec(question.new, template=template))
