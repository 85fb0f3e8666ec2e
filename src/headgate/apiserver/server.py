"""A small Kubernetes: requests in, responses out, watches beside. No I/O, no clock, no dice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import structs

from headgate.apiserver.admission import ADMISSION, WEBHOOK_CONFIGURATIONS, AdmissionChain, Plugin, given_options
from headgate.apiserver.apiextensions import resource_types_of
from headgate.apiserver.authorization import (
    AccessAttributes,
    AlwaysAllow,
    AuthorizationMode,
    RbacAuthorizer,
    access_denied,
    attributes_of,
)
from headgate.apiserver.authorization.default_roles import default_roles, reconciled
from headgate.apiserver.authorization.escalation import EscalationCheck
from headgate.apiserver.controllers import (
    API_SERVER,
    DefinitionController,
    GarbageCollector,
    NamespaceController,
    RoleAggregationController,
)
from headgate.apiserver.discovery import discovery, openapi
from headgate.apiserver.field_errors import not_supported
from headgate.apiserver.handlers import (
    ACCOUNTS,
    APPLY,
    CONNECTED,
    PROTOBUF,
    SCALE,
    TOKEN,
    DeferredDeletion,
    DeleteOptions,
    Deleter,
    ListScope,
    Reviews,
    TokenIssuer,
    Watch,
    WatchEvent,
    Writer,
    answer_scale,
    as_json,
    bind,
    decode_binding,
    decode_configuration,
    decode_eviction,
    decode_object,
    decode_options,
    decode_patch,
    evict,
    field_manager,
    field_validation,
    forced,
    get_existing,
    known_version,
    list_objects,
    not_connected,
    refuse_list_options,
    valid_utf8,
    validate_fields,
)
from headgate.apiserver.kinds import INITIAL_OBJECTS, RESOURCE_TYPES
from headgate.apiserver.managedfields import FieldTracker
from headgate.apiserver.messages import (
    ADMINISTRATOR,
    MASTERS,
    ClientIdentity,
    Groups,
    Json,
    Request,
    Response,
    UserDetails,
    account_of,
    groups_of,
    impersonated_groups,
)
from headgate.apiserver.metadata import Identities
from headgate.apiserver.printing import rendering
from headgate.apiserver.registry import Registry, RequestInfo
from headgate.apiserver.selectors import selection
from headgate.apiserver.status import (
    ApiError,
    StatusError,
    bad_request,
    created,
    deleted,
    details_of,
    failure,
    invalid,
    method_not_allowed,
    no_such_path,
)
from headgate.apiserver.storage import HISTORY, Change, SavedState, Store, is_namespaces, is_pods, is_removable
from headgate.apiserver.strategy import ResourceType
from headgate.apiserver.webhook_calls import CallsNeeded, WebhookAnswers, WebhookCall

__all__ = ["ApiServer", "Watch", "WatchEvent"]

PROBES = ("/livez", "/readyz", "/healthz")
"""Paths that nobody is refused."""
CALLS_AT_ONCE = 64
"""How many webhook calls the deletion of a collection asks for at a time, about."""
NOBODY_IMPERSONATED = "Internal error occurred: requested groups without impersonating a user"


class ApiServer:
    """The API server of one cluster. Equal seeds and equal requests give equal histories, byte for byte."""

    def __init__(
        self,
        seed: int = 0,
        types: Sequence[ResourceType] = RESOURCE_TYPES,
        admission: Sequence[Plugin] = ADMISSION,
        objects: Sequence[Json] = INITIAL_OBJECTS,
        history: int = HISTORY,
        *,
        now: float = 0.0,
        saved: SavedState | None = None,
        tracks_fields: bool = False,
        token_key: bytes = b"",
        authorization: AuthorizationMode = AuthorizationMode.ALWAYS_ALLOW,
        calls_webhooks: bool = False,
    ) -> None:
        """With what was `saved` the server goes on from there, and keeps its changes for `take_unsaved`.

        If somebody `calls_webhooks` over HTTPS, deletions by controllers that meet one are kept for `take_deferred`.

        Managers of fields are tracked, and configurations applied, only if `tracks_fields`: it costs time that nobody
        gets back who reads neither. With RBAC the default roles of a real server are there too.
        """
        self._store = Store(history)
        self._registry = Registry(self._store, types)
        self._rbac = RbacAuthorizer(self._store) if authorization is AuthorizationMode.RBAC else None
        self._authorizer = self._rbac or AlwaysAllow()
        if self._rbac is not None:
            admission = (*admission, EscalationCheck(self._rbac))
        self._chain = AdmissionChain(self._store, self._registry, self._authorizer, admission)
        self._tracks_fields = tracks_fields
        fields = FieldTracker() if tracks_fields else None
        self._writer = Writer(self._store, self._chain, Identities(seed), fields)
        self._deleter = Deleter(self._store, self._chain)
        self._webhooks = [self._store.collection(*each) for each in WEBHOOK_CONFIGURATIONS]
        self._calls_webhooks = calls_webhooks
        self._deleter.deferred = [] if calls_webhooks else None
        self._tokens = TokenIssuer(self._store, token_key or str(seed).encode())
        self._reviews = Reviews(self._tokens, self._authorizer)
        self._namespaces = NamespaceController(self._store, self._registry, self._deleter)
        self._controllers = (
            DefinitionController(self._store, self._registry, self._deleter, resource_types_of),
            GarbageCollector(self._store, self._registry, self._deleter),
            self._namespaces,
            RoleAggregationController(self._store),
        )
        if saved is not None:
            self._store.restore(saved)
            self._reconcile(now)
        self._create_initial(objects, now)
        if self._rbac is not None:
            self._create_initial(default_roles(), now, reconciled)

    def handle(self, request: Request, now: float, answers: WebhookAnswers | None = None) -> Response:
        """The response to a request. Controllers have reconciled its consequences when this returns.

        With `answers` it raises CallsNeeded where a webhook over HTTPS is to be called first; nothing was stored then.
        """
        try:
            if self._rbac is not None:
                self._authorize(request)
            if request.content_type == PROTOBUF:
                request = structs.replace(request, body=as_json(request.body), content_type="application/json")
            response = self._answer(request, now, answers)
        except ApiError as refusal:
            response = Response(refusal.code, failure(refusal))
        except RecursionError:
            response = Response(400, failure(bad_request("the request is nested too deeply")))
        except UnicodeDecodeError:
            return self.handle(structs.replace(request, body=valid_utf8(request.body)), now, answers)
        self._reconcile(now)
        return response

    def answers_for(self, request: Request) -> WebhookAnswers | None:
        """Where to keep the answers of webhooks to a request; None if it cannot meet one that is called over HTTPS."""
        if not self._calls_webhooks or request.method == "GET" or all(each.is_empty() for each in self._webhooks):
            return None
        return WebhookAnswers(given_options(request))

    def take_deferred(self) -> list[DeferredDeletion]:
        """The deletions by controllers, since the last call, that webhooks have to be asked about."""
        deferred = self._deleter.deferred
        if not deferred:
            return []
        self._deleter.deferred = []
        return deferred

    def collect(self, deletion: DeferredDeletion, now: float, answers: WebhookAnswers) -> bool:
        """Carries out a deferred deletion; whether it is settled. Raises CallsNeeded."""
        try:
            self._deleter.delete(structs.replace(deletion.info, now=now, answers=answers), deletion.options)
        except ApiError as refusal:
            return refusal.code in (404, 409)  # it is gone, or another has its name
        self._reconcile(now)
        return True

    def watch(self, path: str, query: Mapping[str, str], user: str = ADMINISTRATOR, groups: Groups = ()) -> Watch:
        """A watch of the collection at this path; raises ApiError where a server would refuse it."""
        if self._rbac is not None:
            self._authorize(Request("GET", path, {**query, "watch": "true"}, user=user, groups=groups))
        served, target = self._registry.at(path)
        if target.name:
            raise method_not_allowed()
        refuse_list_options(query, watches=True)
        scope = ListScope(served, target.namespace, selection(query, served.type))
        initial = query.get("sendInitialEvents") == "true"
        since = None if initial else known_version(self._store, query) or None
        bookmarks = query.get("allowWatchBookmarks") == "true"
        return Watch(self._store, scope, since, bookmarks=bookmarks, marks_end=initial and bookmarks)

    def account_of(self, token: str, now: float) -> str | None:
        """The service account a token was issued for; None if it is not valid now."""
        return self._tokens.user_of(token, now)

    @property
    def decides_by_rules(self) -> bool:
        """Whether roles and bindings decide, so that also whoever has not said who they are can be answered."""
        return self._rbac is not None

    def impersonated(
        self, who: ClientIdentity, user: str, groups: Sequence[str], details: UserDetails | None = None
    ) -> ClientIdentity:
        """Another user, for somebody who acts as it; raises ApiError unless they may impersonate it, each group, its
        uid and each extra value.

        Without groups, they are those that follow from the name.
        """
        if not user:
            raise StatusError(500, "InternalError", NOBODY_IMPERSONATED)
        account = account_of(user)
        wanted = AccessAttributes("impersonate", version="v1", resource="users", name=user)
        if account is not None:
            wanted = structs.replace(wanted, resource="serviceaccounts", namespace=account[0], name=account[1])
        of_groups = [structs.replace(wanted, resource="groups", namespace="", name=name) for name in groups]
        for each in (wanted, *of_groups, *_impersonated_details(details or UserDetails())):
            self._refuse_unless_allowed(who.user, who.groups, each)
        return ClientIdentity(user, impersonated_groups(user, groups), details)

    def _authorize(self, request: Request) -> None:
        """Refuses a request that no rule allows."""
        if request.path not in PROBES:
            groups = request.groups or groups_of(request.user)
            wanted = attributes_of(request.method, request.path, request.query)
            self._refuse_unless_allowed(request.user, groups, wanted)

    def _refuse_unless_allowed(self, user: str, groups: Groups, wanted: AccessAttributes) -> None:
        decision = self._authorizer.decide(user, groups, wanted)
        if not decision.allowed:
            raise access_denied(user, wanted, decision.reason)

    @property
    def version(self) -> int:
        """The resourceVersion of the last change."""
        return self._store.version

    def take_unsaved(self) -> list[Change]:
        """The changes since the last call; none unless the server was made with what was saved."""
        unsaved, self._store.unsaved = self._store.unsaved or [], None if self._store.unsaved is None else []
        return unsaved

    def served(self) -> tuple[ResourceType, ...]:
        """Every served resource type, built-in and custom, in all versions."""
        return self._registry.types()

    def _create_initial(
        self, objects: Sequence[Json], now: float, update: Callable[[Json, Json], Json] = lambda stored, _: stored
    ) -> None:
        """Creates what is missing of these, and makes of the others what `update` says, by default nothing else."""
        for value in objects:
            served = self._registry.of_kind(value["apiVersion"], value["kind"])
            assert served is not None, f"no type serves the initial {value['kind']}"
            namespace, name = value["metadata"].get("namespace") or "", value["metadata"]["name"]
            info = RequestInfo(served, namespace, "", API_SERVER, now, groups=(MASTERS,))
            found = served.collection.get(namespace, name)
            new = value if found is None else update(found.value, value)
            if found is not None and new is value:
                self._deleter.remove(structs.replace(info, name=name), DeleteOptions())
            if new is value:
                self._writer.create(info, value)
            elif found is not None and new is not found.value:
                self._writer.replace(structs.replace(info, name=name), new)
        self._reconcile(now)

    def _reconcile(self, now: float) -> None:
        """Runs the controllers on all changes, including those they make, until there are none."""
        while self._store.unreconciled:
            changes = self._store.take_unreconciled()
            for controller in self._controllers:
                controller.reconcile(changes, now)

    def _answer(self, request: Request, now: float, answers: WebhookAnswers | None) -> Response:
        try:
            served, target = self._registry.at(request.path)
        except ApiError:
            found = self._document(request)
            if found is not None:
                return found
            review = self._reviews.answered(request, now)
            if review is None:
                raise
            return Response(201, review)
        info = RequestInfo(
            served,
            target.namespace,
            target.name,
            request.user,
            now,
            target.subresource,
            bool(request.query) and _is_dry_run(request),
            [],
            field_manager(request.method, request.query, request.user_agent) if self._tracks_fields else "",
            request.groups,
            answers,
            request.details,
        )
        code, value = self._answer_resolved(request, info)
        if request.accept:
            render = rendering(served.type, request.accept, request.query)
            if render is not None and value["kind"] != "Status":
                value = render(value, now)
        return Response(code, value, tuple(info.warnings)) if info.warnings else Response(code, value)

    def _document(self, request: Request) -> Response | None:
        """What is at a path that names no resource."""
        if request.method != "GET":
            return None
        return discovery(request.path, request.accept, self.served()) or openapi(request.path, self.served())

    def _answer_resolved(self, request: Request, info: RequestInfo) -> tuple[int, Json]:
        served, subresource = info.served, info.subresource
        if not subresource or (subresource == "status" and served.type.has_status):  # as most are
            return self._answer_object(request, info) if info.name else self._answer_collection(request, info)
        if subresource in ("binding", "eviction"):
            return self._answer_pod_action(request, info)
        if subresource == SCALE and served.type.scale is not None and info.name:
            return 200, answer_scale(request, info, self._writer, self._registry)
        if subresource == TOKEN and (served.type.group, served.type.plural) == ACCOUNTS:
            if request.method != "POST":
                raise method_not_allowed()
            return 201, self._tokens.issue(info, request.body)
        if subresource in CONNECTED and is_pods(served.collection):
            raise not_connected(info)
        raise no_such_path()

    def _answer_collection(self, request: Request, info: RequestInfo) -> tuple[int, Json]:
        if not info.namespace and request.method != "GET" and info.served.type.namespaced:
            raise no_such_path() if info.served.custom else method_not_allowed()
        match request.method:
            case "GET":
                if request.query.get("watch") in ("true", "1"):
                    raise bad_request("a watch is no single response")
                return 200, list_objects(self._store, _scope(request, info), request.query)
            case "POST":
                return self._create(request, info)
            case "DELETE" if not is_namespaces(info.served.collection):
                return 200, self._delete_all(request, info)
        raise method_not_allowed()

    def _answer_object(self, request: Request, info: RequestInfo) -> tuple[int, Json]:
        served = info.served
        match request.method:
            case "PATCH":  # as most are
                return self._patch(request, info)
            case "GET":
                return 200, served.shown(get_existing(info).value)
            case "PUT":
                new = decode_object(request.body, served, self._registry)
                validate_fields(info, new, field_validation(request.method, request.query))
                return 200, self._writer.replace(info, new)
            case "DELETE" if not info.subresource:
                return 200, self._delete(info, decode_options(request.body, request.query))
        raise method_not_allowed()

    def _answer_pod_action(self, request: Request, info: RequestInfo) -> tuple[int, Json]:
        if not is_pods(info.served.collection) or not info.name:
            raise no_such_path()
        if request.method != "POST":
            raise method_not_allowed()
        if info.subresource == "binding":
            bind(self._store, self._chain, info, decode_binding(request.body))
        else:
            evict(self._store, self._chain, self._deleter, info, decode_eviction(request.body))
        return 201, created()

    def _create(self, request: Request, info: RequestInfo) -> tuple[int, Json]:
        value = decode_object(request.body, info.served, self._registry)
        validation = field_validation(request.method, request.query) if request.query else None
        validate_fields(info, value, validation)
        self._namespaces.refuse_unless_active(info, value["metadata"].get("name") or "")
        return 201, self._writer.create(info, value)

    def _patch(self, request: Request, info: RequestInfo) -> tuple[int, Json]:
        if self._tracks_fields and request.content_type == APPLY:
            return self._apply(request, info)
        validation = None
        if request.query:
            forced(request.query, applies=False)
            validation = field_validation(request.method, request.query)
        patch = decode_patch(request.body, request.content_type, info.served)
        return 200, self._writer.patch(info, patch, validation)

    def _apply(self, request: Request, info: RequestInfo) -> tuple[int, Json]:
        force = forced(request.query, applies=True)
        config = decode_configuration(request.body)
        if info.subresource or info.served.collection.get(info.namespace, info.name) is not None:
            return 200, self._writer.apply(info, config, force=force)
        if self._rbac is not None:  # to patch is not enough
            wanted = attributes_of(request.method, request.path, request.query)
            groups = request.groups or groups_of(request.user)
            self._refuse_unless_allowed(request.user, groups, structs.replace(wanted, verb="create"))
        self._namespaces.refuse_unless_active(info, info.name)
        return 201, self._writer.create_by_apply(info, config)

    def _delete(self, info: RequestInfo, options: DeleteOptions) -> Json:
        """The object if it still exists or is a pod, else a Status with its details."""
        info = structs.replace(info, dry_run=True) if options.dry_run else info
        last = self._deleter.delete(info, options)
        collection, resource = info.served.collection, info.served.type
        stored = collection.get(info.namespace, info.name)
        remains = not is_removable(collection, last) if info.dry_run else stored is not None
        if is_pods(collection) or remains:
            return info.served.shown(last)
        return deleted(details_of(info.name, resource.group, resource.plural, last["metadata"]["uid"]))

    def _delete_all(self, request: Request, info: RequestInfo) -> Json:
        options = decode_options(request.body, request.query)
        listed = list_objects(self._store, _scope(request, info), request.query)
        each = [structs.replace(info, name=item["metadata"]["name"], of_collection=True) for item in listed["items"]]
        if info.answers is None:
            for one in each:
                self._deleter.delete(one, options)
            return listed
        admitted, refusal = self._admitted(each, options)
        for one in admitted:
            self._deleter.remove(one, options)
        if refusal is not None:
            raise refusal
        return listed

    def _admitted(
        self, each: Sequence[RequestInfo], options: DeleteOptions
    ) -> tuple[list[RequestInfo], ApiError | None]:
        """The deletions that admission allows, up to the first it does not, and why not that one. Webhooks are asked
        about all of them before the first is deleted: raises CallsNeeded.
        """
        admitted, calls = list[RequestInfo](), list[WebhookCall]()
        for one in each:
            try:
                self._deleter.admit(one, options)
                admitted.append(one)
            except CallsNeeded as needed:
                calls += needed.calls
                if len(calls) >= CALLS_AT_ONCE:
                    break
            except ApiError as refusal:
                if not calls:
                    return admitted, refusal
                break
        if calls:
            raise CallsNeeded(calls)
        return admitted, None


def _impersonated_details(details: UserDetails) -> Iterator[AccessAttributes]:
    """What somebody must be allowed who acts as a user with these details."""
    wanted = AccessAttributes("impersonate", group="authentication.k8s.io", version="v1")
    for key, values in details.extra:
        for value in values:
            yield structs.replace(wanted, resource="userextras", subresource=key, name=value)
    if details.uid:
        yield structs.replace(wanted, resource="uids", name=details.uid)


def _scope(request: Request, info: RequestInfo) -> ListScope:
    return ListScope(info.served, info.namespace, selection(request.query, info.served.type))


_OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions", "DELETE": "DeleteOptions"}


def _is_dry_run(request: Request) -> bool:
    asked = request.query.get("dryRun", "")
    if asked not in ("", "All") and request.method in _OPTIONS:
        raise invalid(_OPTIONS[request.method], "meta.k8s.io", "", [not_supported("dryRun", [asked], ("All",))])
    return bool(asked)
