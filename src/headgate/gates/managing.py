"""Is this work to wait for quota? Where its namespace, its queue and whoever made it say so."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.gates.ancestors import Asking, has_managed_ancestor
from headgate.gates.wire_values import labels_of
from headgate.model.admission import Question, Rules
from headgate.model.keys import Key, Kind
from headgate.model.kueue_names import DEFAULT_CLASS, DEFAULT_QUEUE, PRIORITY_CLASS, QUEUE_NAME
from headgate.model.objects import Namespace
from headgate.model.selectors import selects


def labels_to_add(question: Question, rules: Rules) -> Asking[Mapping[str, str] | None]:
    """What managed work must be labelled with besides; None where it is not managed."""
    queue = yield from _default_queue(question)
    if not (queue or labels_of(question.new).get(QUEUE_NAME) or rules.quota.manages_all):
        return None
    if not (yield from _namespace_is_chosen(question.namespace, rules)):
        return None
    if (yield from has_managed_ancestor(question.new, question.namespace, rules)):
        return None
    return {**queue, **(yield from _default_class(question))}


def _default_queue(question: Question) -> Asking[Mapping[str, str]]:
    if labels_of(question.new).get(QUEUE_NAME):
        return {}
    found = yield Key(Kind.LOCAL_QUEUE, question.namespace, DEFAULT_QUEUE)
    return {QUEUE_NAME: DEFAULT_QUEUE} if found else {}


def _default_class(question: Question) -> Asking[Mapping[str, str]]:
    if labels_of(question.new).get(PRIORITY_CLASS):
        return {}
    found = yield Key(Kind.WORKLOAD_PRIORITY_CLASS, "", DEFAULT_CLASS)
    return {PRIORITY_CLASS: DEFAULT_CLASS} if found else {}


def _namespace_is_chosen(name: str, rules: Rules) -> Asking[bool]:
    found = yield Key(Kind.NAMESPACE, "", name)
    return any(isinstance(one, Namespace) and selects(rules.quota.namespaces, one.labels) for one in found)
