"""As whom writes are carried out: our own pass our webhooks by, as on a real cluster, those of others do not."""

from __future__ import annotations

import pytest
from msgspec import Raw, json

from headgate.apiserver import INITIAL_OBJECTS, ApiServer
from headgate.model.effects import Create
from headgate.model.events import WriteError
from headgate.model.keys import Key, Kind
from headgate.model.settings import Settings
from headgate.simulator.clients import perform
from headgate.simulator.cluster import CONTROLLER_MANAGER, installed_objects, lookup_in, our_webhooks

FLAVOR = {"nodeLabels": {"no such key": "x"}}


def refused_flavor() -> Create:
    """One that its definition lets pass and our webhook does not."""
    metadata = {"name": "it"}
    value = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": metadata, "spec": FLAVOR}
    return Create(Key(Kind.RESOURCE_FLAVOR, "", "it"), Raw(json.encode(value)))


@pytest.fixture
def server() -> ApiServer:
    webhooks = our_webhooks(Settings(), lookup_in(lambda: made))
    made = ApiServer(admission=(webhooks,), objects=(*INITIAL_OBJECTS, *installed_objects(Settings())))
    return made


def test_our_own_writes_ask_nobody(server: ApiServer) -> None:
    assert perform(refused_flavor(), server, 0.0).trouble is None


def test_writes_of_the_world_ask_our_webhooks(server: ApiServer) -> None:
    outcome = perform(refused_flavor(), server, 0.0, CONTROLLER_MANAGER)
    assert outcome.trouble is WriteError.REFUSED
    assert "denied the request" in outcome.message
