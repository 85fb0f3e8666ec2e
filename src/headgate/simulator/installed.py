"""What every simulated cluster has from the start, as `headgate install` would have left it: our kinds and webhooks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from headgate.api.admission import answer
from headgate.api.kinds import RESOURCES, collection_path
from headgate.api.manifests import DEFAULTING, VALIDATING, AtService, definitions, webhook_configurations
from headgate.api.policies import decode_priority_class
from headgate.apiserver.messages import Json, Request
from headgate.apiserver.server import ApiServer
from headgate.apiserver.webhooks import WebhookAdmission
from headgate.gates.workloads import judged, with_default_class
from headgate.model.admission import Verdict
from headgate.model.groups import Workload
from headgate.model.keys import Kind
from headgate.model.objects import PriorityClass
from headgate.model.priority_classes import Classes

FindClasses = Callable[[], Iterable[PriorityClass]]
"""The priority classes of the cluster as it is now."""

JUDGES: Mapping[str, Callable[[Workload, Classes], Verdict]] = {DEFAULTING: with_default_class, VALIDATING: judged}


def installed_objects() -> tuple[Json, ...]:
    """To be created before anything else."""
    return (*definitions(), *webhook_configurations(AtService("headgate-system", "headgate")))


def workload_webhooks(find: FindClasses) -> WebhookAdmission:
    """Our webhooks, called in process."""

    def handle(name: str, review: Json) -> Json:
        def judge(workload: Workload) -> Verdict:
            return JUDGES[name](workload, Classes.of(find()))

        answered: Json = msgspec.json.decode(answer(msgspec.json.encode(review), judge))
        return answered

    return WebhookAdmission(dict.fromkeys(JUDGES, handle))


def priority_classes(server: ApiServer) -> list[PriorityClass]:
    found = server.handle(Request("GET", collection_path(RESOURCES[Kind.PRIORITY_CLASS])), 0.0).value["items"]
    return [decode_priority_class(msgspec.json.encode(one)) for one in found]
