"""A write is carried out: the same requests a live process would send, put to the small Kubernetes."""

from __future__ import annotations

from headgate.api.install_manifests import OWN_ACCOUNT
from headgate.api.requests import calls_for, trouble_of
from headgate.apiserver import ApiServer, Request
from headgate.model.effects import Write
from headgate.model.events import Outcome

REPORTER = "headgate.dev/headgate"


def perform(write: Write, server: ApiServer, now: float, user: str = OWN_ACCOUNT) -> Outcome:
    """By our process, unless it is someone else's."""
    for call in calls_for(write, REPORTER):
        request = Request(call.method, call.path, call.query, call.body, call.content_type, user)
        response = server.handle(request, now)
        if response.code >= 300 and (trouble := trouble_of(response.code, response.body)) is not None:
            return Outcome(write, *trouble)
    return Outcome(write)
