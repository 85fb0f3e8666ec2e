"""The scenario's own hand: it applies, patches and deletes as a user of the cluster would."""

from __future__ import annotations

from collections.abc import Collection

import msgspec
from msgspec import Struct

from headgate.apiserver import ApiServer, Json, Request, Response
from headgate.simulator.manifests import complete_node
from headgate.simulator.scenario import Manifest, Reference
from headgate.simulator.served import DEFAULT_NAMESPACE, Served, served_kind, served_kinds

JSON = "application/json"
MERGE = "application/merge-patch+json"


class Ambiguous(Exception):
    """A kind that several groups serve, and the reference does not say which is meant."""

    def __init__(self, kind: str, versions: list[str]) -> None:
        super().__init__(f'expected an apiVersion, because "{kind}" is served in {" and in ".join(versions)}')


class Refused(Struct, frozen=True):
    """A request of the scenario that the server refused."""

    verb: str
    object: dict[str, str]
    code: int
    reason: str
    message: str


class Place(Struct, frozen=True):
    """Where one object is served."""

    served: Served
    namespace: str
    name: str

    @property
    def path(self) -> str:
        return f"{self.served.path(self.namespace)}/{self.name}"

    @property
    def reference(self) -> dict[str, str]:
        where = (self.namespace or DEFAULT_NAMESPACE) if self.served.namespaced else ""
        return reference_dict(self.served.api_version, self.served.kind, where, self.name)


class Hand:
    """Remembers what it applied, so that applying again changes what the manifest changed and nothing else."""

    def __init__(self, server: ApiServer, unmentioned: Collection[tuple[str, str]] = ()) -> None:
        """`unmentioned` are kinds and names of what is there in every cluster and would only fill reports."""
        self._server, self._unmentioned = server, unmentioned
        self._applied: dict[str, Manifest] = {}  # by path

    def create(self, manifest: Manifest, now: float) -> Refused | None:
        """The object and, as a controller would write it next, the status its manifest brings."""
        place = self._place_of(manifest)
        if place is None:
            return _no_such_kind("create", _reference(manifest))
        whole = complete_node(manifest) if place.served.kind == "Node" else manifest
        answer = self._ask("POST", place.served.path(place.namespace), now, whole)
        if answer.code >= 400:
            return _refused("create", place, answer)
        created = Place(place.served, place.namespace, answer.value["metadata"]["name"])
        if whole is manifest:  # what a node's kubelet registers is not the scenario's to take back
            self._applied[created.path] = manifest
        return self._write_status("create", created, whole, now)

    def apply(self, manifest: Manifest, now: float) -> Refused | None:
        """Create the object, or make the one that exists what the manifest says."""
        live = self.get(_reference(manifest)) if manifest["metadata"].get("name") else None
        place = self._place_of(manifest)
        if place is None or live is None:
            return self.create(manifest, now)
        change = change_to(manifest, self._applied.get(place.path, {}), live)
        refused = self._merge("apply", place, change | {"status": manifest.get("status")}, now)
        if refused is None:
            self._applied[place.path] = manifest
        return refused

    def delete(self, reference: Reference, now: float) -> Refused | None:
        place = self._find(reference)
        if place is None:
            return _no_such_kind("delete", reference)
        answer = self._ask("DELETE", place.path, now)
        return _refused("delete", place, answer) if answer.code >= 400 else None

    def patch(self, reference: Reference, merge: Manifest, now: float) -> Refused | None:
        place = self._find(reference)
        return _no_such_kind("patch", reference) if place is None else self._merge("patch", place, merge, now)

    def get(self, reference: Reference) -> Json | None:
        place = self._find(reference)
        answer = self._ask("GET", place.path, 0.0) if place is not None else None
        return answer.value if answer is not None and answer.code < 400 else None

    def everything(self) -> list[Json]:
        """All objects, by apiVersion, kind, namespace and name."""
        found: list[Json] = []
        for served in served_kinds(self._server):
            identity = {"apiVersion": served.api_version, "kind": served.kind}
            found += [{**identity, **item} for item in self._ask("GET", served.everywhere, 0.0).value["items"]]
        mentioned = [item for item in found if (item["kind"], item["metadata"]["name"]) not in self._unmentioned]
        return sorted(mentioned, key=_order)

    def _merge(self, verb: str, place: Place, change: Manifest, now: float) -> Refused | None:
        spec = {part: value for part, value in change.items() if part != "status"}
        answer = self._ask("PATCH", place.path, now, spec, MERGE)
        return _refused(verb, place, answer) if answer.code >= 400 else self._write_status(verb, place, change, now)

    def _write_status(self, verb: str, place: Place, manifest: Manifest, now: float) -> Refused | None:
        if not manifest.get("status"):
            return None
        answer = self._ask("PATCH", f"{place.path}/status", now, {"status": manifest["status"]}, MERGE)
        return _refused(verb, place, answer) if answer.code >= 400 else None

    def _ask(self, method: str, path: str, now: float, body: object = None, content_type: str = JSON) -> Response:
        raw = b"" if body is None else msgspec.json.encode(body)
        return self._server.handle(Request(method, path, {}, raw, content_type), now)

    def _place_of(self, manifest: Manifest) -> Place | None:
        return self._find(_reference(manifest))

    def _find(self, reference: Reference) -> Place | None:
        served = self._served(reference)
        return None if served is None else Place(served, reference.namespace, reference.name)

    def _served(self, reference: Reference) -> Served | None:
        if reference.api_version:
            return served_kind(self._server, reference.api_version, reference.kind)
        found = [served for served in served_kinds(self._server) if served.kind == reference.kind]
        if len(found) > 1:
            raise Ambiguous(reference.kind, sorted(served.api_version for served in found))
        return found[0] if found else None


def change_to(wanted: Manifest, applied: Manifest, live: Manifest) -> Manifest:
    """The merge patch that applies `wanted`, as kubectl would: what was applied before and is wanted no more goes,
    what is wanted and not so changes. A list counts as wanted anew only if it differs from the one applied before,
    because servers complete the elements of lists.
    """
    change: Manifest = {name: None for name in applied if name not in wanted}
    for name, value in wanted.items():
        before, there = applied.get(name), live.get(name)
        if isinstance(value, dict) and isinstance(there, dict):
            inner = change_to(value, before if isinstance(before, dict) else {}, there)
            change |= {name: inner} if inner else {}
        elif value != (before if isinstance(value, list) else there):
            change[name] = value
    return change


def reference_dict(api_version: str, kind: str, namespace: str, name: str) -> dict[str, str]:
    """An object as outputs name it."""
    where = {"namespace": namespace} if namespace else {}
    return {"apiVersion": api_version, "kind": kind, **where, "name": name}


def _reference(manifest: Manifest) -> Reference:
    metadata = manifest["metadata"]
    return Reference(
        manifest["kind"], metadata.get("name") or "", metadata.get("namespace") or "", manifest["apiVersion"]
    )


def _order(value: Json) -> tuple[str, str, str, str]:
    metadata = value["metadata"]
    return value["apiVersion"], value["kind"], metadata.get("namespace", ""), metadata["name"]


def _refused(verb: str, place: Place, answer: Response) -> Refused:
    status = answer.value
    return Refused(verb, place.reference, answer.code, status.get("reason", ""), status.get("message", ""))


def _no_such_kind(verb: str, reference: Reference) -> Refused:
    where = f' in version "{reference.api_version}"' if reference.api_version else ""
    about = reference_dict(reference.api_version, reference.kind, reference.namespace, reference.name)
    return Refused(verb, about, 404, "NotFound", f'no matches for kind "{reference.kind}"{where}')
