"""What a cluster needs to have before we can work on it: our kinds, our rights, and the webhooks it is to ask.

The manifests are package data, so that what is installed, what is simulated and what is documented are one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any, assert_never

import yaml
from msgspec import Struct

Manifest = dict[str, Any]

DEFAULTING, VALIDATING = "default.workloads.headgate.dev", "validate.workloads.headgate.dev"
"""The names of our webhooks."""
WEBHOOK_PATHS: Mapping[str, str] = {DEFAULTING: "/default-workload", VALIDATING: "/validate-workload"}
CONFIGURATION = "headgate"
"""The name of both webhook configurations."""
_OF_KUEUE = (
    "resourceflavors",
    "cohorts",
    "clusterqueues",
    "localqueues",
    "workloadpriorityclasses",
    "admissionchecks",
    "workloads",
)
ASKING_TIMEOUT = 5  # seconds an API server waits for our answer


class AtUrl(Struct, frozen=True):
    """Webhooks outside the cluster: https://host:port, and perhaps a path."""

    url: str


class AtService(Struct, frozen=True):
    """Webhooks behind a Service of the cluster."""

    namespace: str
    name: str
    port: int = 443


WebhookPlace = AtUrl | AtService


def definitions() -> tuple[Manifest, ...]:
    """The CustomResourceDefinitions of our kinds."""
    return tuple(document for name in ("workloads.yaml",) for document in _documents("crds", name))


def queue_definitions() -> tuple[Manifest, ...]:
    """The CustomResourceDefinitions of Kueue's kinds, as far as we serve them."""
    return tuple(document for name in _OF_KUEUE for document in _documents("crds", f"kueue-{name}.yaml"))


def rights() -> tuple[Manifest, ...]:
    """The service account our process runs as and the rights it needs, and no more."""
    return _documents("rights", "rbac.yaml")


def webhook_configurations(place: WebhookPlace) -> tuple[Manifest, Manifest]:
    """What makes an API server ask us about new Workloads."""
    return (
        _configuration("MutatingWebhookConfiguration", DEFAULTING, place),
        _configuration("ValidatingWebhookConfiguration", VALIDATING, place),
    )


def _configuration(kind: str, webhook: str, place: WebhookPlace) -> Manifest:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": CONFIGURATION},
        "webhooks": [
            {
                "name": webhook,
                "clientConfig": _client_config(place, WEBHOOK_PATHS[webhook]),
                "rules": [
                    {
                        "apiGroups": ["scheduling.headgate.dev"],
                        "apiVersions": ["v1alpha1"],
                        "resources": ["workloads"],
                        "operations": ["CREATE"],  # the classes cannot be changed later
                        "scope": "Namespaced",
                    }
                ],
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "timeoutSeconds": ASKING_TIMEOUT,
            }
        ],
    }


def _client_config(place: WebhookPlace, path: str) -> Manifest:
    match place:
        case AtUrl(url):
            return {"url": url.rstrip("/") + path}
        case AtService(namespace, name, port):
            return {"service": {"namespace": namespace, "name": name, "port": port, "path": path}}
        case _:
            assert_never(place)


@lru_cache
def _documents(folder: str, name: str) -> tuple[Manifest, ...]:
    text = (files("headgate.api") / folder / name).read_text("utf-8")
    return tuple(yaml.safe_load_all(text))
