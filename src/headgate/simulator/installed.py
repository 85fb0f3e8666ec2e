"""What every simulated cluster has from the start, as `headgate install` would have left it: kinds and webhooks."""

from __future__ import annotations

from collections.abc import Callable, Generator

from headgate.api.admission import Read, answer, found_at, path_to
from headgate.api.manifests import definitions, queue_definitions
from headgate.api.rereading import Rereading
from headgate.api.webhook_manifests import WEBHOOKS, AtService, webhook_configurations
from headgate.apiserver.messages import Json, Request
from headgate.apiserver.server import ApiServer
from headgate.apiserver.webhooks import Handler, WebhookAdmission
from headgate.gates.judges import JUDGES
from headgate.lifecycle.roles import role_hash
from headgate.model.admission import Matter, Rules, Wanted
from headgate.model.objects import Object
from headgate.model.quota_settings import QuotaSettings

Look = Callable[[Wanted], tuple[Object, ...]]
"""What there is in the cluster at this moment."""


def installed_objects() -> tuple[Json, ...]:
    """To be created before anything else."""
    place = AtService("headgate-system", "headgate")
    return (*definitions(), *queue_definitions(), *webhook_configurations(place))


def our_webhooks(quota: QuotaSettings, look: Look) -> WebhookAdmission:
    """Our webhooks, called in process."""
    rules, read = Rules(quota, role_hash), Rereading().read
    return WebhookAdmission({hook.name: _handler(hook.matter, rules, look, read) for hook in WEBHOOKS})


def looking_at(server: Callable[[], ApiServer]) -> Look:
    """Sees the objects of that server; it may be made after its webhooks are."""

    def look(wanted: Wanted) -> tuple[Object, ...]:
        found = server().handle(Request("GET", path_to(wanted)), 0.0)
        return found_at(wanted, found.body) if found.code == 200 else ()

    return look


def _handler(matter: Matter, rules: Rules, look: Look, read: Read) -> Handler:
    judge = JUDGES[matter]

    def handle(_name: str, review: Json) -> Json:
        return _settled(answer(review, lambda question: judge(question, rules), read), look)

    return handle


def _settled(asking: Generator[Wanted, tuple[Object, ...], Json], look: Look) -> Json:
    """What it comes to, once it was told all it wants to know."""
    try:
        wanted = next(asking)
        while True:
            wanted = asking.send(look(wanted))
    except StopIteration as done:
        answered: Json = done.value
        return answered
