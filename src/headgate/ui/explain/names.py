"""The names `headgate explain workload` takes: of a Workload, or of a Job, pod, StatefulSet or Deployment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from msgspec import Struct

from headgate.model.keys import Key, Kind
from headgate.model.pod import Pod
from headgate.model.queues import QueuedWorkload

KINDS: Mapping[str, Kind] = {
    "workload": Kind.KUEUE_WORKLOAD,
    "workloads": Kind.KUEUE_WORKLOAD,
    "workload.kueue.x-k8s.io": Kind.KUEUE_WORKLOAD,
    "workloads.kueue.x-k8s.io": Kind.KUEUE_WORKLOAD,
    "wl": Kind.KUEUE_WORKLOAD,
    "kwl": Kind.KUEUE_WORKLOAD,
    "job": Kind.JOB,
    "jobs": Kind.JOB,
    "job.batch": Kind.JOB,
    "jobs.batch": Kind.JOB,
    "pod": Kind.POD,
    "pods": Kind.POD,
    "po": Kind.POD,
    "statefulset": Kind.STATEFUL_SET,
    "statefulsets": Kind.STATEFUL_SET,
    "statefulset.apps": Kind.STATEFUL_SET,
    "statefulsets.apps": Kind.STATEFUL_SET,
    "sts": Kind.STATEFUL_SET,
    "deployment": Kind.DEPLOYMENT,
    "deployments": Kind.DEPLOYMENT,
    "deployment.apps": Kind.DEPLOYMENT,
    "deployments.apps": Kind.DEPLOYMENT,
    "deploy": Kind.DEPLOYMENT,
}
FORMS = "NAME, workload/NAME, job/NAME, pod/NAME, statefulset/NAME or deployment/NAME"
OWNERS: Mapping[Kind, str] = {Kind.JOB: "Job", Kind.POD: "Pod", Kind.STATEFUL_SET: "StatefulSet"}
"""The kinds that own Workloads."""
MOST_NAMED = 5  # names in an error


class InvalidName(ValueError):
    """The name has a form or kind that cannot be explained."""


class NoSuchWorkload(Exception):
    """No Workload has that name; the text suggests others."""


class WorkloadName(Struct, frozen=True):
    """A name as typed. Without a kind it is that of a Workload or, if there is none, of an owner."""

    kind: Kind | None
    namespace: str
    name: str

    @classmethod
    def parse(cls, text: str, namespace: str) -> WorkloadName:
        kind, slash, name = text.rpartition("/")
        if slash and kind.lower() not in KINDS:
            raise InvalidName(f"expected {FORMS}, got {text!r}")
        if not name:
            raise InvalidName(f"expected a name, got {text!r}")
        return cls(KINDS[kind.lower()] if slash else None, namespace, name)

    def __str__(self) -> str:
        return f"{_called(self.kind or Kind.KUEUE_WORKLOAD)} {self.namespace}/{self.name}"

    def related_keys(self, workloads: Sequence[QueuedWorkload], pods: Iterable[Pod]) -> list[Key]:
        """Objects to read besides: those it may name, the owner of the pod it names, and the owners of the Workload."""
        keys = list(self.object_keys)
        keys += [pod.owner.key for pod in pods if pod.owner is not None and pod.key in keys]
        for found in self._matches(workloads, None)[:1]:
            keys += _owners(found)
        return list(dict.fromkeys(key for key in keys if key.kind in (*OWNERS, Kind.DEPLOYMENT)))

    @property
    def object_keys(self) -> list[Key]:
        """The objects it may name: a group of pods goes by the key of its Workload."""
        kinds = (Kind.KUEUE_WORKLOAD, *OWNERS, Kind.DEPLOYMENT) if self.kind is None else (self.kind,)
        return [self._key(kind) for kind in kinds]

    def find(self, workloads: Sequence[QueuedWorkload], pods: Mapping[Key, Pod]) -> QueuedWorkload:
        """The Workload it refers to, given the pods that could be read. Raises NoSuchWorkload."""
        found = self._matches(workloads, pods.get(self._key(Kind.POD)))
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(sorted(one.key.name for one in found)[:MOST_NAMED])
            raise NoSuchWorkload(f"{self}: expected one Workload of that name, there are several: {names}")
        raise NoSuchWorkload(self._not_found(workloads))

    def _matches(self, workloads: Sequence[QueuedWorkload], pod: Pod | None) -> list[QueuedWorkload]:
        here = [one for one in workloads if one.key.namespace == self.namespace]
        named = [one for one in here if one.key.name == self.name]
        if self.kind is Kind.KUEUE_WORKLOAD or (self.kind is None and named):
            return named
        kinds = tuple(OWNERS) if self.kind is None else (self.kind,)
        keys = [self._key(kind) for kind in kinds]
        if Kind.POD in kinds and pod is not None and pod.owner is not None:
            keys.append(pod.owner.key)
        return [one for one in here if any(key in keys for key in _owners(one))]

    def _key(self, kind: Kind) -> Key:
        return Key(kind, self.namespace, self.name)

    def _not_found(self, workloads: Sequence[QueuedWorkload]) -> str:
        here = [one for one in workloads if one.key.namespace == self.namespace]
        if not here:
            places = sorted({one.key.namespace for one in workloads if self.name == one.key.name})
            elsewhere = f"; there is one in namespace {', '.join(places)}" if places else ""
            return f"{self} not found: no Workloads in namespace {self.namespace}{elsewhere}"
        names = list(
            dict.fromkeys([*(one.key.name for one in here), *(_short(key) for one in here for key in _owners(one))])
        )
        close = get_close_matches(self.name, names, MOST_NAMED, 0.5)
        close += [name for name in names if self.name in name and name not in close]
        if close:
            return f"{self} not found; did you mean {', '.join(close[:MOST_NAMED])}?"
        some = ", ".join(sorted(one.key.name for one in here)[:MOST_NAMED])
        return f"{self} not found; namespace {self.namespace} has {some}" + (", ..." if len(here) > MOST_NAMED else "")


def _owners(workload: QueuedWorkload) -> list[Key]:
    return [target.key for target in (workload.owner, *workload.owners) if target is not None]


def _short(key: Key) -> str:
    return f"{_called(key.kind).lower()}/{key.name}"


def _called(kind: Kind) -> str:
    return "Deployment" if kind is Kind.DEPLOYMENT else OWNERS.get(kind, "Workload")
