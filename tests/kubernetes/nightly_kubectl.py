"""The kubectl session with a kubectl of years ago, which takes minutes to build: `make nightly`."""

from __future__ import annotations

from pathlib import Path

import pytest
from assets import oldest_kubectl
from cluster import Cluster
from test_kubectl_session import SPACE, Kubectl, differences, ours

__all__ = ["ours"]


@pytest.mark.timeout(900)  # with the build
def test_the_same_session_reads_the_same_with_the_oldest_kubectl(cluster: Cluster, ours: Path):
    found = differences(Kubectl(oldest_kubectl(), f"{SPACE}-oldest"), cluster.administrator, ours)
    assert not found, found
