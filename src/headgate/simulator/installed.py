"""What every simulated cluster has from the start, as `headgate install` would have left it: kinds and webhooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from headgate.api.admission import Read, found_at, path_to, question_about, read_once
from headgate.api.manifests import definitions, queue_definitions
from headgate.api.webhook_manifests import WEBHOOKS, AtService, webhook_configurations
from headgate.apiserver.messages import Json, Request
from headgate.apiserver.rules import Operation
from headgate.apiserver.server import ApiServer
from headgate.apiserver.webhooks import Allowed, Denied, Handler, WebhookAdmission
from headgate.gates.judges import JUDGES
from headgate.lifecycle.roles import role_hash
from headgate.model.admission import Admit, Inquiry, Matter, Refuse, Rules, Verdict, Wanted
from headgate.model.objects import Object
from headgate.model.quota_settings import QuotaSettings

Look = Callable[[Wanted], tuple[Object, ...]]
"""What there is in the cluster at this moment."""


def installed_objects() -> tuple[Json, ...]:
    """To be created before anything else."""
    place = AtService("headgate-system", "headgate")
    return (*definitions(), *queue_definitions(), *webhook_configurations(place))


def our_webhooks(quota: QuotaSettings, look: Look, read: Read = read_once) -> WebhookAdmission:
    """Our webhooks, called in process."""
    rules = Rules(quota, role_hash)
    return WebhookAdmission({hook.name: _handler(hook.matter, rules, look, read) for hook in WEBHOOKS})


def looking_at(server: Callable[[], ApiServer]) -> Look:
    """Sees the objects of that server; it may be made after its webhooks are."""

    def look(wanted: Wanted) -> tuple[Object, ...]:
        found = server().handle(Request("GET", path_to(wanted)), 0.0)
        return found_at(wanted, found.body) if found.code == 200 else ()

    return look


def _handler(matter: Matter, rules: Rules, look: Look, read: Read) -> Handler:
    judge = JUDGES[matter]

    def handle(operation: Operation) -> Allowed | Denied:
        place = (operation.resource.group, operation.resource.plural)
        question = question_about(place, operation.namespace, operation.new, operation.old, read)
        return _answer(_settled(judge(question, rules), look))

    return handle


def _settled(asking: Inquiry, look: Look) -> Verdict:
    """What it comes to, once it was told all it wants to know."""
    try:
        wanted = next(asking)
        while True:
            wanted = asking.send(look(wanted))
    except StopIteration as done:
        verdict: Verdict = done.value
        return verdict


def _answer(verdict: Verdict) -> Allowed | Denied:
    """What the server is told, as `answer_of` would over HTTP."""
    match verdict:
        case Admit(changed):
            return Allowed(changed)
        case Refuse(message):
            return Denied(message, "Forbidden", 403)
        case _:
            assert_never(verdict)
