"""What every simulated cluster has from the start, as `headgate install` would have left it: kinds and webhooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from headgate.api.admission import found_at, path_to, reader_of
from headgate.api.manifests import definitions, queue_definitions
from headgate.api.rereading import Rereading
from headgate.api.webhook_manifests import WEBHOOKS, AtService, Webhook, webhook_configurations
from headgate.apiserver.messages import Json, Request
from headgate.apiserver.rules import Operation
from headgate.apiserver.server import ApiServer
from headgate.apiserver.webhooks import Allowed, Denied, Handler, WebhookAdmission
from headgate.gates.judges import JUDGES
from headgate.lifecycle.roles import role_hash
from headgate.model.admission import Admit, Inquiry, Question, Refuse, Rules, Verdict, Wanted
from headgate.model.objects import Object
from headgate.model.quota_settings import QuotaSettings

Look = Callable[[Wanted], tuple[Object, ...]]
"""What there is in the cluster at this moment."""


def installed_objects() -> tuple[Json, ...]:
    """To be created before anything else."""
    place = AtService("headgate-system", "headgate")
    return (*definitions(), *queue_definitions(), *webhook_configurations(place))


def our_webhooks(quota: QuotaSettings, look: Look, reading: Rereading | None = None) -> WebhookAdmission:
    """Our webhooks, called in process by the one server whose objects are read so."""
    rules, reading = Rules(quota, role_hash), reading or Rereading()
    return WebhookAdmission({hook.name: _handler(hook, rules, look, reading) for hook in WEBHOOKS})


def looking_at(server: Callable[[], ApiServer]) -> Look:
    """Sees the objects of that server; it may be made after its webhooks are."""

    def look(wanted: Wanted) -> tuple[Object, ...]:
        found = server().handle(Request("GET", path_to(wanted)), 0.0)
        return found_at(wanted, found.body) if found.code == 200 else ()

    return look


def _handler(hook: Webhook, rules: Rules, look: Look, reading: Rereading) -> Handler:
    judge, once = JUDGES[hook.matter], reading.once
    read = reader_of((hook.asked.group, hook.asked.plural), reading.read)

    def handle(operation: Operation) -> Allowed | Denied:
        question = Question(operation.namespace, operation.new or {}, operation.old, read, once)
        try:
            said = judge(question, rules)
            return _answer(said if isinstance(said, Verdict) else _settled(said, look))
        except Exception as error:
            return Denied(f"this object could not be judged, so it is not stored: {error}"[:512], "Forbidden", 403)

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
        case Admit():
            return Allowed(verdict.changed)
        case Refuse():
            return Denied(verdict.message, "Forbidden", 403)
        case _:
            assert_never(verdict)
