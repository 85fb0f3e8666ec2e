"""One simulated cluster: its API server as `headgate install` leaves it, its controllers, and our process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

from headgate.api.admission import lookup_path, lookup_result, reader_of
from headgate.api.decode import READABLE
from headgate.api.install_manifests import (
    WEBHOOKS,
    AtService,
    Webhook,
    definitions,
    queue_definitions,
    volcano_definitions,
    webhook_configurations,
)
from headgate.api.rereading import Rereading
from headgate.apiserver.admission.chain import Catalog, Operation, Plugin
from headgate.apiserver.admission.plugins import ADMISSION
from headgate.apiserver.admission.webhooks import Allowed, Denied, Handler, WebhookAdmission
from headgate.apiserver.field_errors import Complaint, FieldError
from headgate.apiserver.kinds import INITIAL_OBJECTS, RESOURCE_TYPES
from headgate.apiserver.messages import Json, Request
from headgate.apiserver.server import ApiServer
from headgate.apiserver.status import ApiError
from headgate.engine.journal import Entry, Journal
from headgate.gates.webhooks import HANDLERS
from headgate.lifecycle.jobframework.pod_group import role_hash
from headgate.model.admission import (
    AdmissionAllowed,
    AdmissionRequest,
    AdmissionResponse,
    DeferredResponse,
    Lookup,
    WebhookSettings,
)
from headgate.model.effects import PatchStatus, WakeAt, Write
from headgate.model.events import Event, Outcome, TimerFired
from headgate.model.keys import Kind
from headgate.model.objects import Object
from headgate.model.settings import Role, Settings
from headgate.simulator.autoscaling import scaling_entries
from headgate.simulator.clients import Kubectl, perform
from headgate.simulator.faults import FaultInjector
from headgate.simulator.invariants import BoundOnce
from headgate.simulator.manifests import Manifest
from headgate.simulator.network import OUTSIDE, Endpoint, Network
from headgate.simulator.observing import Feed, ObjectChange, kinds_of, of_kinds
from headgate.simulator.process import Process, ProcessPlace, ProcessPlan
from headgate.simulator.report import PodCounts
from headgate.simulator.scenario import Apply, Scenario
from headgate.world import (
    Controller,
    CronJobController,
    DeploymentController,
    DisruptionController,
    JobController,
    Kubelet,
    NodeLifecycle,
    ReplicaSetController,
    StatefulSetController,
)
from headgate.world.autoscaling import Autoscaler, ScaleUpReview

LookUp = Callable[[Lookup], tuple[Object, ...]]
"""Reads the objects of the cluster that a webhook asks for."""
CONTROLLER_MANAGER = "system:kube-controller-manager"
"""The user the controllers write as."""
UNCHANGEABLE = "may not be changed while the feature PodSchedulingReadiness is disabled"


class DroppedGates:
    """An API server without `spec.schedulingGates`: dropped from new pods, kept and immutable on pods that have it."""

    resources = frozenset({("", "pods")})
    keeps_complete = False  # the status that the server gave to a gated pod must be dropped too

    def mutate(self, operation: Operation, catalog: Catalog) -> Json | None:
        new = operation.new
        if new is None or operation.resource.kind != "Pod" or operation.subresource or not _gates(new):
            return new
        if _gates(operation.old):
            return new
        return {**new, "spec": {name: value for name, value in new["spec"].items() if name != "schedulingGates"}}

    def validate(self, operation: Operation, catalog: Catalog) -> None:
        new, old = operation.new, operation.old
        if operation.resource.kind != "Pod" or operation.subresource or new is None or not _gates(old):
            return
        if _gates(new) != _gates(old):
            wrong = FieldError("spec.schedulingGates", Complaint.FORBIDDEN, UNCHANGEABLE)
            message = f'Pod "{operation.name}" is invalid: {wrong.path}: {wrong.complaint}: {UNCHANGEABLE}'
            raise ApiError(422, "Invalid", message, [wrong])


def admission_for(features: Mapping[str, bool]) -> tuple[Plugin, ...]:
    """The admission plugins of a server with these feature gates."""
    return ADMISSION if features.get("PodSchedulingReadiness", True) else (DroppedGates(), *ADMISSION)


def _gates(pod: Json | None) -> object:
    return pod["spec"].get("schedulingGates") if pod is not None else None


def installed_objects(settings: Settings) -> tuple[Json, ...]:
    """CRDs and webhook configurations, as `headgate install` leaves them for a process with these settings."""
    place, names = AtService("headgate-system", "headgate"), [each.scheduler_name for each in settings.profiles]
    configurations = webhook_configurations(place, volcano=True, schedulers=names)
    return (*definitions(), *queue_definitions(), *volcano_definitions(), *configurations)


def our_webhooks(settings: Settings, look_up: LookUp, reading: Rereading | None = None) -> WebhookAdmission:
    """Our webhooks, called in process; `look_up` reads from the server that calls them."""
    given = WebhookSettings(settings.quota, role_hash, settings.gated_schedulers, Role.FLEET in settings.roles)
    reading = reading or Rereading()
    return WebhookAdmission({hook.name: _handler(hook, given, look_up, reading) for hook in WEBHOOKS})


def lookup_in(server: Callable[[], ApiServer]) -> LookUp:
    """Reads from that server, which is created after the webhooks it is given."""

    def look_up(wanted: Lookup) -> tuple[Object, ...]:
        found = server().handle(Request("GET", lookup_path(wanted)), 0.0)
        return lookup_result(wanted, found.body) if found.code == 200 else ()

    return look_up


def _handler(hook: Webhook, settings: WebhookSettings, look_up: LookUp, reading: Rereading) -> Handler:
    handler, memoize = HANDLERS[hook.webhook], reading.memoize
    read = reader_of((hook.resource.group, hook.resource.plural), reading.read)

    def handle(operation: Operation) -> Allowed | Denied:
        request = AdmissionRequest(operation.namespace, operation.new or {}, operation.old, read, memoize)
        try:
            result = handler(request, settings)
            return _answer(result if isinstance(result, AdmissionResponse) else _settled(result, look_up))
        except Exception as error:
            return Denied(f"this object could not be judged, so it is not stored: {error}"[:512], "Forbidden", 403)

    return handle


def _settled(deferred: DeferredResponse, look_up: LookUp) -> AdmissionResponse:
    """The response, after every object it asks for has been looked up."""
    try:
        wanted = next(deferred)
        while True:
            wanted = deferred.send(look_up(wanted))
    except StopIteration as done:
        response: AdmissionResponse = done.value
        return response


def _answer(response: AdmissionResponse) -> Allowed | Denied:
    """The response to the server; `review_response` is the same over HTTP."""
    if isinstance(response, AdmissionAllowed):
        return Allowed(response.changed)
    return Denied(response.message, "Forbidden", 403)


class Wake(Protocol):
    """Sets a timer that calls `event`. A run does not go on for idle timers alone."""

    def __call__(self, at: float, event: Callable[[], None], idle: bool = False) -> None: ...


class WriteEffect(Protocol):
    """Performs a write of a controller; `learn` takes its outcome, now or later."""

    def __call__(self, effect: Write, now: float, learn: Callable[[Outcome], None]) -> None: ...


def usual_controllers(stuck: frozenset[str] = frozenset()) -> tuple[Controller, ...]:
    """The controllers and kubelets that every cluster has; pods that are `stuck` never stop."""
    return (
        Kubelet(stuck),
        JobController(),
        StatefulSetController(),
        ReplicaSetController(),
        DeploymentController(),
        CronJobController(),
        NodeLifecycle(),
        DisruptionController(),
    )


class ControllerRunner:
    """A controller and the events it has not handled yet."""

    def __init__(self, controller: Controller) -> None:
        self._controller, self._reads = controller, frozenset(controller.reads)
        self._inbox: list[Event] = []

    def observe(self, changes: Sequence[ObjectChange], kinds: frozenset[Kind]) -> None:
        """Queues those of the kinds it watches; `kinds` are all kinds among the sights."""
        if kinds <= self._reads:
            self._inbox += changes
        elif not kinds.isdisjoint(self._reads):
            self._inbox += of_kinds(changes, self._reads)

    @property
    def has_events(self) -> bool:
        return bool(self._inbox)

    def fire(self, timer: str) -> None:
        self._inbox.append(TimerFired(timer))

    def learn(self, outcome: Outcome) -> None:
        """Queues the outcome of a write that failed; a successful one is observed anyway."""
        if outcome.trouble is not None:
            self._inbox.append(outcome)

    def run(self, write: WriteEffect, now: float, wake: Wake) -> bool:
        """Lets the controller react to its queued events; returns whether there were any."""
        if not self._inbox:
            return False
        batch, self._inbox = self._inbox, []
        for effect in self._controller.react(batch, now):
            if isinstance(effect, PatchStatus) or not isinstance(effect, WakeAt):
                write(effect, now, self.learn)
            else:
                wake(effect.at, partial(self.fire, effect.timer), effect.idle)
        return True


class SimulatedCluster:
    """An API server, controllers and our process."""

    def __init__(
        self,
        name: str,
        seed: int,
        injector: FaultInjector,
        plan: ProcessPlan,
        network: Network,
        *,
        place: str = OUTSIDE,
        more_controllers: Sequence[Controller] = (),
        autoscaler: Autoscaler | None = None,
    ) -> None:
        """Our process runs in `place`; `more_controllers` run beside the usual ones."""
        self.name = name
        reading = Rereading()  # an object decoded for a webhook is not decoded again when observed
        webhooks = our_webhooks(plan.settings, lookup_in(lambda: self.server), reading)
        installed = installed_objects(plan.settings)
        self.server = ApiServer(
            seed,
            admission=(*admission_for(plan.settings.features), webhooks),
            objects=(*INITIAL_OBJECTS, *installed),
        )
        self.kubectl = Kubectl(self.server, {(known["kind"], known["metadata"]["name"]) for known in installed})
        self.pod_counts = PodCounts()
        self._bound_once = BoundOnce()
        controllers = (*usual_controllers(injector.faults.stuck), *more_controllers)
        self.autoscaler, self.review = autoscaler, None if autoscaler is None else ScaleUpReview(autoscaler)
        if autoscaler is not None and self.review is not None:
            controllers = (*controllers, autoscaler, self.review)
        self._runners = [ControllerRunner(controller) for controller in controllers]
        self._feed = Feed(self.server, READABLE, reading.read)
        network.add(name, Endpoint(self.server, reading.read))
        self.process = Process(self.server, self._feed, plan, injector, ProcessPlace(network, place, name))
        self.changed_at = 0.0
        self.changes: list[Sequence[ObjectChange]] = []  # of this round
        self._release_set_for: float | None = None
        self._restart_set_in = -1

    def round(self, now: float, wake: Wake) -> bool:
        """Hands out what changed, and lets process and controllers act once; returns whether any did."""
        self.changes = []
        if not (self._feed.is_behind or self.process.has_news(now) or any(each.has_events for each in self._runners)):
            return False
        self._distribute(now)
        moved = self.process.step(now, lambda alarm: wake(alarm.at, self._engine_timer(alarm.timer), alarm.idle))
        self._distribute(now)
        for runner in self._runners:
            moved |= runner.run(self._write, now, wake)
        self._set_timers(now, wake)
        return moved

    def _write(self, effect: Write, now: float, learn: Callable[[Outcome], None]) -> None:
        """Performs a write of a controller."""
        learn(perform(effect, self.server, now, CONTROLLER_MANAGER))

    @property
    def journal_entries(self) -> list[Entry]:
        """The decisions of our process and of the autoscaler."""
        return [*self.process.journal_entries, *(scaling_entries(self.autoscaler.cloud) if self.autoscaler else ())]

    def journal(self) -> Journal | None:
        """The journal of our process while it runs."""
        return self.process.journal

    def set_lag(self, seconds: float, now: float, wake: Wake) -> None:
        """From now on all that our process observes lags by this time."""
        self.process.set_lag(seconds, now)
        self._set_timers(now, wake)

    def crash(self, now: float, seconds: float, wake: Wake) -> None:
        self.process.crash(now, seconds)
        self._set_timers(now, wake)

    def _distribute(self, now: float) -> None:
        changes = self._feed.poll()
        if not changes:
            return
        self.changed_at = now
        self.changes.append(changes)
        kinds = kinds_of(changes)
        if Kind.POD in kinds:
            self._bound_once.check(changes, self.process.journal)
            self.pod_counts.count(changes, now)
        self.process.view.learn(changes, now)
        for runner in self._runners:
            runner.observe(changes, kinds)

    def _set_timers(self, now: float, wake: Wake) -> None:
        """Sets timers for delayed observations and for the restart of a crashed process."""
        due = self.process.next_at
        if due is not None and due > now and due != self._release_set_for:
            self._release_set_for = due
            wake(due, lambda: None)
        life, restarts_at = self.process.life, self.process.restarts_at
        if restarts_at is not None and life != self._restart_set_in:
            self._restart_set_in = life
            wake(restarts_at, lambda: self._restart(life))

    def _restart(self, life: int) -> None:
        if life == self.process.life:
            self.process.start()

    def _engine_timer(self, timer: str) -> Callable[[], None]:
        return partial(self.process.ring, self.process.life, timer)


UNCONTROLLED = frozenset({"ReplicationController", "ResourceQuota"})
"""Built-in kinds that are stored and have no controller."""
_BUILTIN = frozenset(known.kind for known in RESOURCE_TYPES) - UNCONTROLLED
_OURS = frozenset(
    {"kueue.x-k8s.io", "scheduling.headgate.dev", "scheduling.k8s.io", "scheduling.volcano.sh", "resource.k8s.io"}
)
"""Groups of kinds that our process acts on, or reads."""


def uncontrolled_kinds(scenario: Scenario) -> list[str]:
    """Their names, sorted."""
    return sorted({manifest["kind"] for manifest in _manifests(scenario) if not _is_controlled(manifest)})


def _is_controlled(manifest: Manifest) -> bool:
    group, slash, _ = manifest["apiVersion"].partition("/")
    return manifest["kind"] in _BUILTIN or bool(slash and group in _OURS)


def _manifests(scenario: Scenario) -> Iterator[Manifest]:
    for cluster in scenario.clusters:
        yield from (located.manifest for located in cluster.objects)
    for scheduled in scenario.timeline:
        if isinstance(scheduled.action, Apply):
            yield from (located.manifest for located in scheduled.action.manifests)
