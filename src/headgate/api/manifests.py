"""What a cluster needs to have before we can work on it: our kinds and Kueue's, and our rights.

The manifests are package data, so that what is installed, what is simulated and what is documented are one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

import yaml

Manifest = dict[str, Any]

CONFIGURATION = "headgate"
"""The name of both webhook configurations."""
QUOTA_ROLE = "headgate-quota"
"""The name of the rights that only queues need."""
OURS: Mapping[str, str] = {"app.kubernetes.io/managed-by": "headgate"}
"""The label of those of Kueue's definitions that came from us."""
_OF_KUEUE = (
    "resourceflavors",
    "cohorts",
    "clusterqueues",
    "localqueues",
    "workloadpriorityclasses",
    "admissionchecks",
    "workloads",
)


def definitions() -> tuple[Manifest, ...]:
    """The CustomResourceDefinitions of our kinds."""
    return tuple(document for name in ("workloads.yaml",) for document in _documents("crds", name))


def queue_definitions() -> tuple[Manifest, ...]:
    """The CustomResourceDefinitions of Kueue's kinds, as far as we serve them, labelled as ours."""
    found = (document for name in _OF_KUEUE for document in _documents("crds", f"kueue-{name}.yaml"))
    return tuple({**one, "metadata": {**one["metadata"], "labels": dict(OURS)}} for one in found)


def rights(*, queues: bool = True) -> tuple[Manifest, ...]:
    """The service account our process runs as and the rights it needs, and no more; without `queues`, to schedule."""
    return tuple(one for one in _documents("rights", "rbac.yaml") if queues or one["metadata"]["name"] != QUOTA_ROLE)


@lru_cache
def _documents(folder: str, name: str) -> tuple[Manifest, ...]:
    text = (files("headgate.api") / folder / name).read_text("utf-8")
    return tuple(yaml.safe_load_all(text))
