"""The process: health pages, webhooks, leader election, and leader terms until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import time
from collections.abc import AsyncIterator, Coroutine
from functools import partial
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from headgate.engine.quarantine import Quarantine
from headgate.gates.pre_enqueue import PreEnqueue
from headgate.lifecycle.jobframework.pod_group import role_hash
from headgate.live.access import Access, is_loopback
from headgate.live.certificates import ServerTls, follow, load_certificate, made_for, read_pem
from headgate.live.client import Client
from headgate.live.election import Clocks, Election, LeaseSettings
from headgate.live.health import (
    LIMITS,
    Readiness,
    ReviewedAccess,
    everybody,
    page_handler,
    probes,
    receipts_json,
    reports,
)
from headgate.live.http_server import Listen, http_server
from headgate.live.logs import Log, Outages, ReadProgress, Unwatched
from headgate.live.loop import WallClock
from headgate.live.metrics import LEADER, STANDALONE, Metrics
from headgate.live.plugin_calls import pre_enqueue_plugins
from headgate.live.recorder import Recorder
from headgate.live.reflector import ReflectorDependencies
from headgate.live.term import LeaderTerm, TermDependencies
from headgate.live.webhooks import CertificateDependencies, ReviewResponder, WebhookPlan, webhooks_served
from headgate.model.admission import WebhookSettings
from headgate.model.settings import Role, Settings

UNENFORCED = (
    "no webhooks are served (--webhook-listen): workloads without a class get no default one, and neither unknown "
    "classes nor a preemption priority below the priority are refused; of jobs and pods that name a queue only jobs "
    "that are suspended and pods that are gated from the start wait for quota, and mistakes in queues are not refused"
)


class MetricsPlan(Struct, frozen=True):
    """Where /metrics and /preemptions are served over TLS. Without a certificate (`chain`, `key`) one is made up."""

    listen: Listen
    chain: Path | None = None
    key: Path | None = None
    client_authority: Path | None = None


class RunPlan(Struct, frozen=True):
    """What to run. No `lease`: decide without an election. No `listen`: no health pages."""

    access: Access
    settings: Settings
    listen: Listen | None = None
    lease: LeaseSettings | None = None
    webhooks: WebhookPlan | None = None
    metrics: MetricsPlan | None = None
    record: BinaryIO | None = None
    plugins: tuple[PreEnqueue, ...] = ()  # written by others
    plugin_timeout: float = 0.1  # seconds one of them may take over one pod
    namespace: str = "kube-system"  # our own
    reading: ReadProgress = Unwatched()
    clock: WallClock = WallClock()


async def serve(plan: RunPlan, log: Log, stop: asyncio.Event) -> None:
    """Returns after a clean stop. Raises CannotListen, InvalidKubeconfig, InvalidCertificate or BrokenEngine."""
    role = LEADER if plan.lease is not None else STANDALONE
    metrics, readiness, outages = Metrics(_profile(plan.settings), role), Readiness(), Outages(log)
    client = _client(plan)
    dependencies = _dependencies(plan, log, client, metrics, outages)
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(client.close)
        await stack.enter_async_context(_pages(plan, log, outages, readiness, metrics))
        await stack.enter_async_context(_webhooks(plan, log, outages, readiness, metrics))
        if plan.settings.not_applied:
            log.info("fields of the configuration file that do not apply", fields=", ".join(plan.settings.not_applied))
        log.info("started", server=client.server, schedulers=_schedulers(plan.settings))
        if plan.lease is None:
            await _decide(dependencies, readiness, stop)
        else:
            voter = _client(plan)  # on connections of its own: a busy or pausing client must not cost us the lease
            stack.callback(voter.close)
            clocks = Clocks(time.monotonic, time.time, asyncio.sleep)
            await _take_turns(Election(voter, plan.lease, clocks, outages), dependencies, readiness, stop)
    log.info("stopped")


@contextlib.asynccontextmanager
async def _pages(
    plan: RunPlan, log: Log, outages: Outages, readiness: Readiness, metrics: Metrics
) -> AsyncIterator[None]:
    """Who may read reports is asked on connections of its own: a scrape does not wait for the scheduler's writes."""
    client = _client(plan)
    reviewed = ReviewedAccess(client.perform, outages, time.monotonic)
    shown, reported = probes(readiness), reports(readiness, metrics.render)
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(client.close)
        if plan.listen is not None:
            access = everybody if is_loopback(plan.listen.host) else reviewed
            handler = page_handler(shown, reported, access)
            port = await stack.enter_async_context(http_server(plan.listen, handler, LIMITS, "--listen"))
            log.info("health and metrics are served", host=plan.listen.host, port=port)
        if plan.metrics is not None:
            access = everybody if is_loopback(plan.metrics.listen.host) else reviewed
            handler = page_handler({}, reported, access)
            tls = await stack.enter_async_context(_metrics_tls(plan.metrics, log))
            served = http_server(plan.metrics.listen, handler, LIMITS, "--metrics-listen", tls.context)
            port = await stack.enter_async_context(served)
            log.info("metrics are served over TLS", host=plan.metrics.listen.host, port=port)
        yield


@contextlib.asynccontextmanager
async def _metrics_tls(plan: MetricsPlan, log: Log) -> AsyncIterator[ServerTls]:
    """Raises InvalidCertificate."""
    tls = ServerTls(read_pem(plan.client_authority) if plan.client_authority is not None else b"")
    if plan.chain is None or plan.key is None:
        tls.show(made_for([socket.gethostname(), "localhost", "127.0.0.1"], time.time()))
        yield tls
        return
    tls.show(load_certificate(plan.chain, plan.key))
    following = asyncio.ensure_future(follow(plan.chain, plan.key, tls, log, asyncio.sleep))
    try:
        yield tls
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


@contextlib.asynccontextmanager
async def _webhooks(
    plan: RunPlan, log: Log, outages: Outages, readiness: Readiness, metrics: Metrics
) -> AsyncIterator[None]:
    """Served on connections of their own: a new workload does not wait for what the scheduler is writing."""
    webhooks, settings = plan.webhooks, plan.settings
    if webhooks is None:
        log.info(UNENFORCED)
        yield
        return
    client, tls = _client(plan), ServerTls()
    readiness.has_webhook_certificate = lambda: tls.shows_a_certificate
    try:
        dependencies = CertificateDependencies(log, outages, asyncio.sleep, time.time)
        given = WebhookSettings(settings.quota, role_hash, settings.gated_schedulers, Role.FLEET in settings.roles)
        responder = ReviewResponder(client.perform, given, metrics.reviewed, queues=webhooks.queues)
        async with webhooks_served(webhooks, client, tls, dependencies, responder) as port:
            log.info("webhooks are served", host=webhooks.listen.host, port=port)
            yield
    finally:
        client.close()


def _client(plan: RunPlan) -> Client:
    return Client(plan.access, time.monotonic, time.time, asyncio.sleep)


def _dependencies(plan: RunPlan, log: Log, client: Client, metrics: Metrics, outages: Outages) -> TermDependencies:
    reflector = ReflectorDependencies(client, outages, log, asyncio.sleep, random.random, metrics.restarted)
    recorder = Recorder(plan.record) if plan.record else None
    plugins = pre_enqueue_plugins(plan.plugins, plan.plugin_timeout, metrics.asked, time.perf_counter)
    clocks = (time.perf_counter, plan.clock)
    return TermDependencies(
        *(plan.settings, plugins, reflector, metrics, log, recorder, *clocks, Quarantine()),
        reading=plan.reading,
        namespace=plan.namespace,
        speed=plan.clock.speed,
    )


async def _decide(dependencies: TermDependencies, readiness: Readiness, stop: asyncio.Event) -> None:
    """Runs leader terms: another, from observation alone, each time an engine raised."""
    while True:
        term = LeaderTerm(dependencies)
        readiness.check = partial(_has_absorbed, term)
        readiness.receipts = partial(_receipts, term)
        if not await term.run(stop):
            return
        pause = dependencies.quarantine.rebuilding(dependencies.wall())
        dependencies.log.info("restarting the engine without the quarantined objects", seconds=pause)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await stop.wait()
        if stop.is_set():
            return


def _has_absorbed(term: LeaderTerm) -> bool:
    return term.absorbed


def _receipts(term: LeaderTerm) -> bytes:
    return receipts_json(term.journal.receipts())


async def _take_turns(
    election: Election, dependencies: TermDependencies, readiness: Readiness, stop: asyncio.Event
) -> None:
    """Stands by, leads, and stands by again when the lease is lost; each term starts from observation alone."""
    while not stop.is_set():
        readiness.check = lambda: bool(election.holder)
        dependencies.log.info("standing by for the lease", lease=election.path)
        await first_of(election.acquire(), stop.wait())
        if stop.is_set():
            break
        dependencies.log.info("leading", lease=election.path)
        await first_of(_decide(dependencies, readiness, stop), election.hold())
        if not stop.is_set():
            dependencies.log.warning("lost the lease, no longer leading", lease=election.path)
    await election.release()


async def first_of(*works: Coroutine[None, None, object]) -> None:
    """Returns when the first of them is done; the others are cancelled. Raises what any of them raised."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        done = [task for task in tasks if task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


def _profile(settings: Settings) -> str:
    return settings.profiles[0].scheduler_name if len(settings.profiles) == 1 else ""


def _schedulers(settings: Settings) -> str:
    return ",".join(profile.scheduler_name for profile in settings.profiles)
