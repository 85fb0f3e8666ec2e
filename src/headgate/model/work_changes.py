"""How work is started, stopped and tied to its queued workload: changes of Jobs, pods and Workloads themselves."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw, Struct

from headgate.model.affinity import Toleration
from headgate.model.keys import Target


class Directives(Struct, frozen=True, gc=False):
    """What pods are told about where to run and what they are part of.

    In a change of a Job's template None removes an entry, and the tolerations are all it is to have (None: those
    it has); a pod only ever gets more, and the tolerations are those it lacks.
    """

    node_selector: Mapping[str, str | None] = {}
    tolerations: tuple[Toleration, ...] | None = None
    labels: Mapping[str, str | None] = {}
    annotations: Mapping[str, str | None] = {}


class JobStart(Struct, frozen=True, gc=False):
    """Unsuspend a Job whose pods are to be like this; the target must name the version it was made from."""

    directives: Directives
    parallelism: int | None = None  # None: as it is
    completions: int | None = None


class JobStop(Struct, frozen=True, gc=False):
    """Suspend a Job and mark it: its template is to be put back once nothing of it runs."""


class JobSuspend(Struct, frozen=True, gc=False):
    """Suspend a Job that others start again."""


class JobRestore(Struct, frozen=True, gc=False):
    """Put back the template of a Job that was stopped, and take the mark off; the target must name the version."""

    directives: Directives
    parallelism: int | None = None
    completions: int | None = None


class PodStart(Struct, frozen=True, gc=False):
    """Give a gated pod what it lacks and take the gates off, all at once; refused if other gates stand there by now.

    `gates` are those to take off with the place each stands at; the others say what there is to add to.
    """

    directives: Directives
    gates: tuple[tuple[int, str], ...]
    has_selector: bool = False
    has_tolerations: bool = False
    has_annotations: bool = False


class WorkloadRewrite(Struct, frozen=True, gc=False):
    """Put fields of a queued workload's spec in place of what was there; the target must name the version."""

    spec: Raw


class Owners(Struct, frozen=True, gc=False):
    """Name all who own an object; `controller` is the one of them that controls it, if any does."""

    owners: tuple[Target, ...]
    controller: Target | None = None


class Annotations(Struct, frozen=True, gc=False):
    """Set annotations; None removes one. Others stay."""

    values: Mapping[str, str | None]


WorkChange = JobStart | JobStop | JobSuspend | JobRestore | PodStart | WorkloadRewrite | Owners | Annotations
