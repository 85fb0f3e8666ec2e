"""A small Kubernetes: requests in, responses out, watches beside. No I/O, no clock, no dice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import structs

from headgate.apiserver.admission import ADMISSION, AdmissionChain, Plugin
from headgate.apiserver.apiextensions import resource_types_of
from headgate.apiserver.controllers import DefinitionController, GarbageCollector, NamespaceController
from headgate.apiserver.handlers import (
    DeleteOptions,
    Deleter,
    ListScope,
    Watch,
    WatchEvent,
    Writer,
    bind,
    decode_binding,
    decode_eviction,
    decode_object,
    decode_options,
    decode_patch,
    evict,
    get_existing,
    known_version,
    list_objects,
    valid_utf8,
)
from headgate.apiserver.kinds import INITIAL_OBJECTS, RESOURCE_TYPES
from headgate.apiserver.messages import Json, Request, Response
from headgate.apiserver.metadata import Identities
from headgate.apiserver.registry import Registry, RequestInfo
from headgate.apiserver.selectors import selection
from headgate.apiserver.status import (
    ApiError,
    bad_request,
    created,
    deleted,
    details_of,
    failure,
    method_not_allowed,
    no_such_path,
)
from headgate.apiserver.storage import HISTORY, Store, is_pods
from headgate.apiserver.strategy import ResourceType

__all__ = ["ApiServer", "Watch", "WatchEvent"]


class ApiServer:
    """One cluster. Equal seeds and equal requests give equal histories, byte for byte."""

    def __init__(
        self,
        seed: int = 0,
        types: Sequence[ResourceType] = RESOURCE_TYPES,
        admission: Sequence[Plugin] = ADMISSION,
        objects: Sequence[Json] = INITIAL_OBJECTS,
        history: int = HISTORY,
    ) -> None:
        self._store = Store(history)
        self._registry = Registry(self._store, types)
        self._chain = AdmissionChain(self._store, admission)
        self._writer = Writer(self._store, self._chain, Identities(seed))
        self._deleter = Deleter(self._store, self._chain)
        self._namespaces = NamespaceController(self._store, self._registry, self._deleter)
        self._controllers = (
            DefinitionController(self._store, self._registry, self._deleter, resource_types_of),
            GarbageCollector(self._store, self._registry, self._deleter),
            self._namespaces,
        )
        self._create_initial(objects)

    def handle(self, request: Request, now: float) -> Response:
        """Answer the request. What it sets off (garbage collection and the like) is done when this returns."""
        try:
            response = Response(*self._answer(request, now))
        except ApiError as refusal:
            response = Response(refusal.code, failure(refusal))
        except UnicodeDecodeError:
            return self.handle(structs.replace(request, body=valid_utf8(request.body)), now)
        self._settle(now)
        return response

    def watch(self, path: str, query: Mapping[str, str]) -> Watch:
        """A watch of the collection at this path; raises ApiError where a server would refuse it."""
        served, place = self._registry.at(path)
        if place.name:
            raise method_not_allowed()
        view = ListScope(served, place.namespace, selection(query, served.type))
        initial = query.get("sendInitialEvents") == "true"
        since = None if initial else known_version(self._store, query) or None
        bookmarks = query.get("allowWatchBookmarks") == "true"
        return Watch(self._store, view, since, bookmarks=bookmarks, marks_end=initial and bookmarks)

    @property
    def version(self) -> int:
        """Of the last change of anything."""
        return self._store.version

    def served(self) -> tuple[ResourceType, ...]:
        """Every type that is served now, custom ones too, each in all its versions."""
        return self._registry.types()

    def _create_initial(self, objects: Sequence[Json]) -> None:
        for value in objects:
            served = self._registry.of_kind(value["apiVersion"], value["kind"])
            assert served is not None, f"no type serves the initial {value['kind']}"
            self._writer.create(RequestInfo(served, "", "", "system:apiserver", 0.0), value)
        self._settle(0.0)

    def _settle(self, now: float) -> None:
        """Let the controllers follow every change, and the changes they make, until nothing more happens."""
        while self._store.fresh:
            changes = self._store.take_fresh()
            for controller in self._controllers:
                controller.follow(changes, now)

    def _answer(self, request: Request, now: float) -> tuple[int, Json]:
        served, place = self._registry.at(request.path)
        dry_run, subresource = bool(request.query) and _is_dry_run(request.query), place.subresource
        errand = RequestInfo(served, place.namespace, place.name, request.user, now, subresource, dry_run)
        if subresource in ("binding", "eviction"):
            return self._answer_pod_action(request, errand)
        if subresource and not (subresource == "status" and served.type.has_status):
            raise no_such_path()
        if not place.name:
            return self._answer_collection(request, errand)
        return self._answer_object(request, errand)

    def _answer_collection(self, request: Request, errand: RequestInfo) -> tuple[int, Json]:
        if request.method != "GET" and errand.served.type.namespaced and not errand.namespace:
            raise no_such_path() if errand.served.custom else method_not_allowed()
        match request.method:
            case "GET":
                if request.query.get("watch") in ("true", "1"):
                    raise bad_request("a watch is no single response")
                return 200, list_objects(self._store, _view(request, errand), request.query)
            case "POST":
                return self._create(request, errand)
            case "DELETE":
                return 200, self._delete_all(request, errand)
        raise method_not_allowed()

    def _answer_object(self, request: Request, errand: RequestInfo) -> tuple[int, Json]:
        served = errand.served
        match request.method:
            case "PATCH":  # as most are
                patch = decode_patch(request.body, request.content_type, served)
                return 200, self._writer.patch(errand, patch)
            case "GET":
                return 200, served.shown(get_existing(errand).value)
            case "PUT":
                new = decode_object(request.body, served, self._registry)
                return 200, self._writer.replace(errand, new)
            case "DELETE" if not errand.subresource:
                return 200, self._delete(errand, decode_options(request.body, request.query))
        raise method_not_allowed()

    def _answer_pod_action(self, request: Request, errand: RequestInfo) -> tuple[int, Json]:
        if not is_pods(errand.served.collection) or not errand.name:
            raise no_such_path()
        if request.method != "POST":
            raise method_not_allowed()
        if errand.subresource == "binding":
            bind(self._store, self._chain, errand, decode_binding(request.body))
        else:
            evict(self._store, self._deleter, errand, decode_eviction(request.body))
        return 201, created()

    def _create(self, request: Request, errand: RequestInfo) -> tuple[int, Json]:
        value = decode_object(request.body, errand.served, self._registry)
        self._namespaces.refuse_content(errand, value["metadata"].get("name") or "")
        return 201, self._writer.create(errand, value)

    def _delete(self, errand: RequestInfo, options: DeleteOptions) -> Json:
        """The object if it still exists or is a pod, else a Status that says what is gone."""
        last = self._deleter.delete(errand, options)
        collection, resource = errand.served.collection, errand.served.type
        if is_pods(collection) or collection.get(errand.namespace, errand.name) is not None:
            return errand.served.shown(last)
        return deleted(details_of(errand.name, resource.group, resource.plural, last["metadata"]["uid"]))

    def _delete_all(self, request: Request, errand: RequestInfo) -> Json:
        options = decode_options(request.body, request.query)
        listed = list_objects(self._store, _view(request, errand), request.query)
        for item in listed["items"]:
            self._deleter.delete(structs.replace(errand, name=item["metadata"]["name"]), options)
        return listed


def _view(request: Request, errand: RequestInfo) -> ListScope:
    return ListScope(errand.served, errand.namespace, selection(request.query, errand.served.type))


def _is_dry_run(query: Mapping[str, str]) -> bool:
    asked = query.get("dryRun", "")
    if asked not in ("", "All"):
        raise bad_request(f'dryRun: Unsupported value: "{asked}": supported values: "All"')
    return bool(asked)
