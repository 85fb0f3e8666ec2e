"""Which cluster is meant: the one of the flags, of the environment, or the one we run in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headgate.live.access import Access
from headgate.live.document import InvalidKubeconfig
from headgate.live.in_cluster import inside_cluster, load_in_cluster
from headgate.live.kubeconfig import context_namespace, kubeconfig_files, load_kubeconfig

WITHOUT_CLUSTER = "expected --kubeconfig FILE, KUBECONFIG, ~/.kube/config or to run in a pod"

DEFAULT_NAMESPACE = "default"


def find_access(kubeconfig: str, context: str, environment: Mapping[str, str]) -> Access:
    """Raises InvalidKubeconfig."""
    if files := kubeconfig_files(kubeconfig, environment, Path.home()):
        return load_kubeconfig(files, context)
    if inside_cluster(environment) and not context:
        return load_in_cluster(environment)
    raise InvalidKubeconfig("no cluster", "", WITHOUT_CLUSTER)


def find_namespace(kubeconfig: str, context: str, environment: Mapping[str, str]) -> str:
    """The namespace that is meant where none is said, as kubectl would take it. Raises InvalidKubeconfig."""
    if files := kubeconfig_files(kubeconfig, environment, Path.home()):
        return context_namespace(files, context) or DEFAULT_NAMESPACE
    return find_access(kubeconfig, context, environment).namespace or DEFAULT_NAMESPACE
