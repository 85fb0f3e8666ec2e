"""Clients of a simulated API server: `perform` for engine and controllers, `Kubectl` for the scenario."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Protocol

import msgspec
from msgspec import Struct

from headgate.api.install_manifests import OWN_ACCOUNT
from headgate.api.requests import calls_for, trouble_of
from headgate.apiserver.kinds import RESOURCE_TYPES
from headgate.apiserver.messages import Json, Request, Response
from headgate.apiserver.server import ApiServer
from headgate.apiserver.strategy import ResourceType
from headgate.model.effects import Write
from headgate.model.events import Outcome
from headgate.simulator.manifests import Manifest
from headgate.simulator.scenario import Reference
from headgate.world.nodes import complete_node

JSON = "application/json"
MERGE = "application/merge-patch+json"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFAULT_NAMESPACE = "default"
REPORTING_CONTROLLER = "headgate.dev/headgate"


def perform(write: Write, server: ApiServer, now: float, user: str = OWN_ACCOUNT) -> Outcome:
    """Sends the requests a live process would send, as `user`; returns how they went."""
    for call in calls_for(write, REPORTING_CONTROLLER):
        request = Request(call.method, call.path, call.query, call.body, call.content_type, user)
        response = server.handle(request, now)
        if response.code >= 300 and (trouble := trouble_of(response.code, response.body)) is not None:
            return Outcome(write, *trouble)
    return Outcome(write)


class AnsweringServer(Protocol):
    """An API server, wherever it runs."""

    def handle(self, request: Request, now: float, /) -> Response: ...


class ServedKind(Struct, frozen=True):
    """A resource the server serves, built in or defined by a CRD."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool

    @property
    def all_namespaces(self) -> str:
        """The path of all its objects in all namespaces."""
        return f"{self._root}/{self.plural}"

    def path(self, namespace: str) -> str:
        """The path of its objects in the namespace, the default one where none is given."""
        if not self.namespaced:
            return self.all_namespaces
        return f"{self._root}/namespaces/{namespace or DEFAULT_NAMESPACE}/{self.plural}"

    @property
    def _root(self) -> str:
        return f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"


def _builtin(known: ResourceType) -> ServedKind:
    api_version = f"{known.group}/{known.version}" if known.group else known.version
    return ServedKind(api_version, known.kind, known.plural, known.namespaced)


_BUILTIN = tuple(_builtin(known) for known in RESOURCE_TYPES)
_BY_NAME = {(known.api_version, known.kind): known for known in _BUILTIN}


def served_resource(server: AnsweringServer, api_version: str, kind: str) -> ServedKind | None:
    builtin = _BY_NAME.get((api_version, kind))
    if builtin is not None:
        return builtin
    matches = (known for known in _custom(server) if (known.api_version, known.kind) == (api_version, kind))
    return next(matches, None)


def served_resources(server: AnsweringServer) -> list[ServedKind]:
    return [*_BUILTIN, *_custom(server)]


def _custom(server: AnsweringServer) -> Iterator[ServedKind]:
    """Every defined kind once, in its first served version."""
    for definition in server.handle(Request("GET", CRDS), 0.0).value["items"]:
        spec = definition["spec"]
        version = next((known["name"] for known in spec["versions"] if known.get("served")), None)
        if version is not None:
            names = spec["names"]
            yield ServedKind(
                f"{spec['group']}/{version}", names["kind"], names["plural"], spec["scope"] == "Namespaced"
            )


class AmbiguousKind(Exception):
    """Several groups serve the kind, and the reference has no apiVersion."""

    def __init__(self, kind: str, versions: list[str]) -> None:
        super().__init__(f'expected an apiVersion, because "{kind}" is served in {" and in ".join(versions)}')


class RefusedRequest(Struct, frozen=True):
    """A request of the scenario that the server refused."""

    verb: str
    object: dict[str, str]
    code: int
    reason: str
    message: str


class Warned(Struct, frozen=True):
    """What the server warned of when it accepted a request of the scenario."""

    verb: str
    object: dict[str, str]
    message: str


class ObjectAddress(Struct, frozen=True):
    """Where one object is served."""

    served: ServedKind
    namespace: str
    name: str

    @property
    def path(self) -> str:
        return f"{self.served.path(self.namespace)}/{self.name}"

    @property
    def reference(self) -> dict[str, str]:
        where = (self.namespace or DEFAULT_NAMESPACE) if self.served.namespaced else ""
        return reference_dict(self.served.api_version, self.served.kind, where, self.name)


class Kubectl:
    """Creates, applies, patches and deletes for the scenario. `apply` is three-way, from the manifest last applied."""

    def __init__(self, server: AnsweringServer, hidden: Collection[tuple[str, str]] = ()) -> None:
        """`hidden` are kinds and names of objects that reports leave out."""
        self._server, self._hidden = server, hidden
        self._applied: dict[str, Manifest] = {}  # by path
        self._warnings: list[Warned] = []

    def create(self, manifest: Manifest, now: float) -> RefusedRequest | None:
        """Creates the object, then writes the status of its manifest as a controller would."""
        address = self._address_of(manifest)
        if address is None:
            return _no_such_kind("create", _reference(manifest))
        whole = complete_node(manifest) if address.served.kind == "Node" else manifest
        response = self._request("POST", address.served.path(address.namespace), now, whole)
        if response.code >= 400:
            return _refused("create", address, response)
        created = ObjectAddress(address.served, address.namespace, response.value["metadata"]["name"])
        self._note("create", created, response)
        if whole is manifest:  # a later apply must not remove what the kubelet registered
            self._applied[created.path] = manifest
        return self._write_status("create", created, whole, now)

    def apply(self, manifest: Manifest, now: float) -> RefusedRequest | None:
        """Creates the object, or patches the one that exists."""
        live = self.get(_reference(manifest)) if manifest["metadata"].get("name") else None
        address = self._address_of(manifest)
        if address is None or live is None:
            return self.create(manifest, now)
        change = merge_patch(manifest, self._applied.get(address.path, {}), live)
        refused = self._merge("apply", address, change | {"status": manifest.get("status")}, now)
        if refused is None:
            self._applied[address.path] = manifest
        return refused

    def delete(self, reference: Reference, now: float) -> RefusedRequest | None:
        address = self._find(reference)
        if address is None:
            return _no_such_kind("delete", reference)
        response = self._request("DELETE", address.path, now)
        return _refused("delete", address, response) if response.code >= 400 else None

    def patch(self, reference: Reference, merge: Manifest, now: float) -> RefusedRequest | None:
        address = self._find(reference)
        return _no_such_kind("patch", reference) if address is None else self._merge("patch", address, merge, now)

    def get(self, reference: Reference) -> Json | None:
        address = self._find(reference)
        response = self._request("GET", address.path, 0.0) if address is not None else None
        return response.value if response is not None and response.code < 400 else None

    def list_all(self) -> list[Json]:
        """All objects, by apiVersion, kind, namespace and name."""
        found: list[Json] = []
        for served in served_resources(self._server):
            identity = {"apiVersion": served.api_version, "kind": served.kind}
            found += [{**identity, **item} for item in self._request("GET", served.all_namespaces, 0.0).value["items"]]
        shown = [item for item in found if (item["kind"], item["metadata"]["name"]) not in self._hidden]
        return sorted(shown, key=_order)

    def _merge(self, verb: str, address: ObjectAddress, change: Manifest, now: float) -> RefusedRequest | None:
        spec = {part: value for part, value in change.items() if part != "status"}
        response = self._request("PATCH", address.path, now, spec, MERGE)
        if response.code >= 400:
            return _refused(verb, address, response)
        self._note(verb, address, response)
        return self._write_status(verb, address, change, now)

    def _write_status(self, verb: str, address: ObjectAddress, manifest: Manifest, now: float) -> RefusedRequest | None:
        if not manifest.get("status"):
            return None
        response = self._request("PATCH", f"{address.path}/status", now, {"status": manifest["status"]}, MERGE)
        if response.code >= 400:
            return _refused(verb, address, response)
        self._note(verb, address, response)
        return None

    def take_warnings(self) -> list[Warned]:
        """Those since they were last taken."""
        taken, self._warnings = self._warnings, []
        return taken

    def _note(self, verb: str, address: ObjectAddress, response: Response) -> None:
        known = {warned.message for warned in self._warnings if warned.object == address.reference}
        self._warnings += [
            Warned(verb, address.reference, message) for message in response.warnings if message not in known
        ]

    def _request(self, method: str, path: str, now: float, body: object = None, content_type: str = JSON) -> Response:
        raw = b"" if body is None else msgspec.json.encode(body)
        query = {} if body is None else {"fieldValidation": "Warn"}
        return self._server.handle(Request(method, path, query, raw, content_type), now)

    def _address_of(self, manifest: Manifest) -> ObjectAddress | None:
        return self._find(_reference(manifest))

    def _find(self, reference: Reference) -> ObjectAddress | None:
        served = self._served(reference)
        return None if served is None else ObjectAddress(served, reference.namespace, reference.name)

    def _served(self, reference: Reference) -> ServedKind | None:
        if reference.api_version:
            return served_resource(self._server, reference.api_version, reference.kind)
        found = [served for served in served_resources(self._server) if served.kind == reference.kind]
        if len(found) > 1:
            raise AmbiguousKind(reference.kind, sorted(served.api_version for served in found))
        return found[0] if found else None


def merge_patch(wanted: Manifest, applied: Manifest, live: Manifest) -> Manifest:
    """The merge patch of a three-way apply: fields applied before and no longer wanted are removed, those that differ
    are set. A list is set only if it differs from the one applied before, because servers default its elements.
    """
    change: Manifest = {name: None for name in applied if name not in wanted}
    for name, value in wanted.items():
        before, there = applied.get(name), live.get(name)
        if isinstance(value, dict) and isinstance(there, dict):
            inner = merge_patch(value, before if isinstance(before, dict) else {}, there)
            change |= {name: inner} if inner else {}
        elif value != (before if isinstance(value, list) else there):
            change[name] = value
    return change


def reference_dict(api_version: str, kind: str, namespace: str, name: str) -> dict[str, str]:
    """An object reference as reports show it."""
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


def _refused(verb: str, address: ObjectAddress, response: Response) -> RefusedRequest:
    status = response.value
    return RefusedRequest(verb, address.reference, response.code, status.get("reason", ""), status.get("message", ""))


def _no_such_kind(verb: str, reference: Reference) -> RefusedRequest:
    where = f' in version "{reference.api_version}"' if reference.api_version else ""
    about = reference_dict(reference.api_version, reference.kind, reference.namespace, reference.name)
    return RefusedRequest(verb, about, 404, "NotFound", f'no matches for kind "{reference.kind}"{where}')
