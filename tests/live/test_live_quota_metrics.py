"""What Prometheus reads of queues and quota, over HTTP, from an engine at work on a small Kubernetes."""

from __future__ import annotations

import itertools
import math

import pytest
from integration_scenes import (
    GATE,
    JOBS,
    KUEUE,
    LOCAL_QUEUES,
    PODS,
    cluster_queue,
    flavor,
    job,
    local_queue,
    pod,
)
from msgspec import json
from msgspec.structs import replace
from page_server import pages_served
from prometheus_client.parser import text_string_to_metric_families
from test_live_pages import ask

from headgate.api.configuration import settings_from
from headgate.api.install_manifests import queue_definitions
from headgate.apiserver import INITIAL_OBJECTS, ApiServer, Request
from headgate.engine.integrations import plane
from headgate.engine.loop import Engine
from headgate.engine.quota.metrics import BOUNDS
from headgate.live.health import Readiness
from headgate.live.metrics import ENGINE, LEADER, TEXTS, Metrics
from headgate.live.plugin_calls import Stopwatch
from headgate.model.effects import WakeAt
from headgate.model.settings import Role
from headgate.simulator.clients import perform
from headgate.simulator.observing import Feed

CONFIGURATION = {
    "fairSharing": {},
    "admissionFairSharing": {"usageHalfLifeTime": "60s", "usageSamplingInterval": "10s"},
    "metrics": {"enableClusterQueueResources": True},
}


class AtWork:
    """An engine for quota and integrations, timed, and the server it writes to."""

    def __init__(self, metrics: Metrics) -> None:
        settings = replace(settings_from(CONFIGURATION, "f"), roles=frozenset({Role.QUOTA, Role.INTEGRATIONS}))
        self.now = 1_000.0
        self._server = ApiServer(objects=(*INITIAL_OBJECTS, *queue_definitions()))
        ticks = itertools.count()
        self._engine = Engine(settings, watch=Stopwatch(metrics.asked, lambda: next(ticks) * 0.02))
        self._feed = Feed(self._server, self._engine.reads)
        metrics.start_leading(self._engine.gauges)

    def ask(self, method: str, path: str, value: object) -> None:
        kind = "application/json" if method == "POST" else "application/merge-patch+json"
        answer = self._server.handle(Request(method, path, {}, json.encode(value), kind), self.now)
        assert answer.code < 300, answer.value

    def settle(self, seconds: float = 0.0) -> AtWork:
        self.now += seconds
        answers: list = []
        while True:
            effects = self._engine.step([*answers, *self._feed.poll()], self.now)
            writes = [effect for effect in effects if not isinstance(effect, WakeAt)]
            if not writes:
                return self
            answers = [perform(write, self._server, self.now) for write in writes]


async def page(metrics: Metrics) -> str:
    async with pages_served(Readiness(), metrics.render) as port:
        return (await ask(port, "GET /metrics HTTP/1.1"))[2]


@pytest.fixture
async def told() -> str:
    """A pod and a job that run, one that waits, and one that is done."""
    metrics = Metrics("headgate", LEADER)
    work = AtWork(metrics)
    work.ask("POST", f"{KUEUE}/resourceflavors", flavor("default"))
    work.ask("POST", f"{KUEUE}/clusterqueues", cluster_queue(2, cohortName="team"))
    work.ask("POST", LOCAL_QUEUES, local_queue())
    work.settle()
    for path, manifest in ((PODS, pod()), (JOBS, job()), (JOBS, job("waits"))):
        work.ask("POST", path, manifest)
        work.settle()
    return await page(metrics)


CQ, LQ = {"cluster_queue": "cq"}, {"name": "lq", "namespace": "default"}
OF_CQ, OF_LQ = {**CQ, "priority_class": ""}, {**LQ, "priority_class": ""}
QUOTA = {**CQ, "cohort": "team", "flavor": "default", "resource": "cpu"}
GATED = {**CQ, "is_group": "false", "name": GATE}
WAITING = {**CQ, "status": "inadmissible"}


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("kueue_admission_attempts_total", {"result": "success"}, 2),
        ("kueue_admission_attempt_duration_seconds_count", {"result": "success"}, 2),
        ("kueue_admission_attempt_duration_seconds_bucket", {"result": "success", "le": "0.01"}, 0),
        ("kueue_admission_attempt_duration_seconds_bucket", {"result": "success", "le": "0.025"}, 2),
        ("kueue_quota_reserved_wait_time_seconds_count", OF_CQ, 2),
        ("kueue_admission_wait_time_seconds_bucket", {**OF_CQ, "le": "1.0"}, 2),
        ("kueue_admission_wait_time_seconds_bucket", {**OF_CQ, "le": "+Inf"}, 2),
        ("kueue_local_queue_admission_wait_time_seconds_count", OF_LQ, 2),
        ("kueue_workload_creation_latency_seconds_count", {"job_kind": "Job"}, 2),
        ("kueue_pod_scheduling_gate_removal_seconds_count", GATED, 1),
        ("kueue_pending_workloads", WAITING, 1),
        ("kueue_pending_scheduling_hashes", WAITING, 1),
        ("kueue_finished_workloads", CQ, 0),
        ("kueue_unadmitted_workloads", {**CQ, "reason": "NoReservation", "underlying_cause": "WaitingForQuota"}, 1),
        ("kueue_cluster_queue_nominal_quota", QUOTA, 2),
        ("kueue_cluster_queue_lending_limit", QUOTA, math.inf),
        ("kueue_cluster_queue_resource_pending", {**CQ, "resource": "cpu"}, 1),
        ("kueue_cluster_queue_info", {**CQ, "parent_cohort": "team", "root_cohort": "team"}, 1),
        ("kueue_cohort_subtree_admitted_workloads_total", {"cohort": "team", "priority_class": ""}, 2),
        ("kueue_cohort_weighted_share", {"cohort": "team"}, 0),
        ("kueue_local_queue_status", {**LQ, "active": "True"}, 1),
        ("kueue_local_queue_admission_fair_sharing_usage", {**CQ, **LQ}, 0),
    ],
)
async def test_a_series(told: str, name: str, labels: dict[str, str], value: float) -> None:
    samples = [sample for family in text_string_to_metric_families(told) for sample in family.samples]
    found = [each.value for each in samples if (each.name, each.labels) == (name, {**labels, "replica_role": LEADER})]
    assert found == [value]


async def test_every_family_of_kueues_is_explained_and_says_whose_word_it_is(told: str) -> None:
    names = [line.split(" ")[2] for line in told.splitlines() if line.startswith("# HELP kueue_")]
    assert len(names) > 40
    assert not [line for line in told.splitlines() if line.startswith("# HELP kueue_") and line.endswith(ENGINE)]
    lines = [line for line in told.splitlines() if line.startswith("kueue_") and "build_info" not in line]
    assert all('replica_role="leader"' in line for line in lines)


def test_what_only_comes_with_time_is_explained_as_well() -> None:
    assert {*BOUNDS, *plane.BOUNDS} <= TEXTS.keys()


async def test_the_build_is_told_of_by_kueues_labels(told: str) -> None:
    (build,) = [each for each in text_string_to_metric_families(told) if each.name == "kueue_build_info"]
    labels = {"git_version", "git_commit", "build_date", "go_version", "compiler", "platform"}
    assert ({*build.samples[0].labels}, build.samples[0].value) == (labels, 1)


async def test_without_quota_nothing_is_told_in_kueues_name() -> None:
    metrics = Metrics("headgate")
    lines = (await page(metrics)).splitlines()
    assert not [line for line in lines if line.startswith("kueue_")]
