"""`headgate explain workload`: why a workload is pending, who holds the quota, which minimal changes would admit it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn, TypeVar

import click
import msgspec
from msgspec import Struct, structs

from headgate.api.decode import decode
from headgate.api.kinds import RESOURCES
from headgate.api.wire import InvalidDuration, parse_duration
from headgate.apiserver.messages import Json
from headgate.engine.explain.explanation import Explanation
from headgate.engine.explain.jobs import explain_job
from headgate.engine.explain.snapshot import READ, ClusterSnapshot
from headgate.engine.explain.workload import concerned_clusters, explain, is_connected, worker_answers
from headgate.gates.pre_enqueue import InvalidPlugin
from headgate.live.cluster_reading import (
    ClusterFlags,
    ClusterObjects,
    ClusterReadError,
    KindsToRead,
    default_namespace,
    load_settings,
    read_cluster,
    read_workers,
)
from headgate.model.keys import Key, Kind
from headgate.model.objects import Object
from headgate.model.pod import Pod
from headgate.model.quantity import duration_text
from headgate.model.queues import MultiKueueCluster, QueuedWorkload
from headgate.model.settings import Settings
from headgate.simulator import EPOCH, NO_FAULTS, Interrupted, InvalidScenario, NeverSettles, load_scenario, run
from headgate.ui.arguments import read_file
from headgate.ui.explain.names import InvalidName, NoSuchWorkload, WorkloadName
from headgate.ui.explain.output import render, to_json
from headgate.ui.output import TABLE, cluster_reading, echo_document, output_option, progress_bar
from headgate.ui.plugins import InstalledPlugins

F = TypeVar("F", bound=Callable[..., object])

DONE, NOT_FOUND, WRONG_INPUT, INTERRUPTED = 0, 1, 2, 130
NO_QUEUES = (
    "the cluster does not serve Workloads of kueue.x-k8s.io/v1beta2; install them with `headgate install`, or a Kueue "
    "that serves this version"
)

NEARBY = (Kind.POD, Kind.REPLICA_SET, Kind.PRIORITY_CLASS)
"""Read in the namespace of the workload: its pods, who owns them, and what gives it a priority."""


class Moment(Struct, frozen=True):
    """A time in the run of a scenario, or its end."""

    scenario: str
    seed: int
    at: float | None


def read_moment(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
    try:
        return None if text is None else parse_duration(text)
    except InvalidDuration as error:
        raise click.BadParameter(str(error)) from None


def cluster_options(command: F) -> F:
    """The options that say which cluster is read, and as whom."""
    namespace = "Namespace to use instead of that of the context."
    insecure = "Send a bearer token even over plain HTTP to another host."
    for option in (
        click.option("--insecure", is_flag=True, help=insecure),
        click.option("--context", metavar="NAME", default="", help="Context to use instead of the current one."),
        click.option("--kubeconfig", metavar="FILE", default="", help="Instead of KUBECONFIG or ~/.kube/config."),
        click.option("--namespace", "-n", metavar="NAME", default="", help=namespace),
    ):
        command = option(command)
    return command


def scenario_options(command: F) -> F:
    """The options that name a moment of a scenario instead of a cluster."""
    at = "Time in the scenario, such as 90s.  [default: its end]"
    for option in (
        click.option("--seed", type=int, default=0, show_default=True, help="Seed of the scenario."),
        click.option("--at", metavar="TIME", callback=read_moment, help=at),
        click.option("--scenario", metavar="FILE", help="Simulate this scenario instead; - for standard input."),
    ):
        command = option(command)
    return command


@click.command(
    epilog="""\b
Examples:
  headgate explain workload job/train --namespace team-a
      the Workload of a Job
  headgate explain workload job-train-1a2b3 --output json
      a Workload by its own name, for a script
  headgate explain workload job/train --config headgate.yaml
      with the fair sharing and resource transformations of that configuration
  headgate explain workload job/model --scenario examples/11-queues/scenario.yaml --at 20s
      in a scenario, 20 seconds after its start
"""
)
@click.argument("name", metavar="[KIND/]NAME")
@cluster_options
@click.option(
    "--kubeconfigs-namespace",
    metavar="NAME",
    default="headgate-system",
    show_default=True,
    help="Namespace of the Secrets with the kubeconfigs of worker clusters, which are asked if these can be read.",
)
@click.option(
    "--config",
    metavar="FILE",
    callback=read_file,
    help="Configuration of the headgate or Kueue that decides; - for standard input.",
)
@scenario_options
@output_option
def workload(
    *,
    name: str,
    namespace: str,
    kubeconfig: str,
    context: str,
    insecure: bool,
    kubeconfigs_namespace: str,
    config: Path | None,
    scenario: str | None,
    at: float | None,
    seed: int,
    output: str,
) -> None:
    """Explain why a workload is pending: the binding limit, who holds the quota, minimal changes that would admit it.

    NAME is that of a Workload, or job/NAME, pod/NAME, statefulset/NAME or deployment/NAME, also of one that has no
    Workload. Only reads the cluster, and needs no running headgate; it works on the objects of headgate and of Kueue
    alike. With rights for one namespace only, it tells what the Workload's status says.

    \b
    Exit status: 0 explained, 1 no such workload, 2 the input was wrong or the cluster could not be read.
    """
    if at is not None and not scenario:
        raise click.UsageError("--at: expected --scenario FILE as well")
    try:
        if scenario:
            explanation, now = _in_scenario(name, namespace, Moment(scenario, seed, at))
        else:
            flags = ClusterFlags(kubeconfig, context, insecure)
            explanation, now = _on_cluster(name, namespace, flags, kubeconfigs_namespace, config)
    except NoSuchWorkload as error:
        _fail(error, NOT_FOUND)
    except (InvalidName, ClusterReadError, InvalidScenario, InvalidPlugin, NeverSettles) as error:
        _fail(error, WRONG_INPUT)
    except (Interrupted, KeyboardInterrupt):
        _fail("interrupted", INTERRUPTED)
    if output == TABLE:
        for line in render(explanation, now):
            click.echo(line)
    else:
        echo_document(to_json(explanation), output)
    sys.exit(DONE)


def _fail(error: Exception | str, status: int) -> NoReturn:
    click.echo(f"Error: {error}", err=True)
    sys.exit(status)


def _in_scenario(name: str, namespace: str, moment: Moment) -> tuple[Explanation, float]:
    reference = WorkloadName.parse(name, namespace or "default")
    shown = simulated(moment)
    cluster = ClusterSnapshot(shown.objects, shown.settings.quota, shown.now)
    explanation = _explained(cluster, reference)
    home = _home_of(explanation, cluster)
    if home is None:
        return explanation, cluster.now
    workers = {one.name: one for one in shown.objects if isinstance(one, MultiKueueCluster)}
    reached = {name: shown.elsewhere.get(name, {}) for name, worker in workers.items() if is_connected(worker)}
    clones = {name: found[home.key] for name, found in reached.items() if home.key in found}
    return with_workers(explanation, home, workers, clones, cluster.now), cluster.now


def _explained(cluster: ClusterSnapshot, reference: WorkloadName) -> Explanation:
    """Raises NoSuchWorkload if there is neither a Workload nor an object of that name."""
    try:
        return explain(cluster, reference.find(list(cluster.workloads.values()), cluster.pods))
    except NoSuchWorkload:
        told = (explain_job(cluster, key) for key in reference.object_keys)
        if (found := next((one for one in told if one is not None), None)) is None:
            raise
        return found


def _on_cluster(
    name: str, namespace: str, flags: ClusterFlags, kubeconfigs: str, config: Path | None
) -> tuple[Explanation, float]:
    settings = load_settings(config, InstalledPlugins().names)
    reference = WorkloadName.parse(name, namespace or default_namespace(flags))
    kinds = KindsToRead(READ, NEARBY, reference.namespace)
    with cluster_reading() as reading:
        found = read_cluster(flags, kinds, lambda seen: _also_read(reference, seen), reading.read)
    if Kind.KUEUE_WORKLOAD in found.unserved:
        raise ClusterReadError(NO_QUEUES)
    for complaint in found.left_out:
        click.echo(f"Warning: ignored an object that cannot be decoded: {complaint}", err=True)
    cluster = ClusterSnapshot(found.objects, settings.quota, time.time(), found.unreadable)
    explanation = _explained(cluster, reference)
    home = _home_of(explanation, cluster)
    if home is None or not concerned_clusters(home):
        return explanation, cluster.now
    workers = {one.name: one for one in found.objects if isinstance(one, MultiKueueCluster)}
    clones = read_workers(flags, workers.values(), kubeconfigs, home.key)
    return with_workers(explanation, home, workers, clones, cluster.now), cluster.now


def _home_of(explanation: Explanation, cluster: ClusterSnapshot) -> QueuedWorkload | None:
    namespace, _, name = explanation.workload.partition("/")
    return cluster.workloads.get(Key(Kind.KUEUE_WORKLOAD, namespace, name)) if explanation.kind == "Workload" else None


def with_workers(
    explanation: Explanation,
    home: QueuedWorkload,
    workers: Mapping[str, MultiKueueCluster],
    clones: Mapping[str, Object],
    now: float,
) -> Explanation:
    read = {name: clone for name, clone in clones.items() if isinstance(clone, QueuedWorkload)}
    return structs.replace(explanation, workers=worker_answers(home, workers, read, now))


def _also_read(reference: WorkloadName, seen: ClusterObjects) -> list[Key]:
    """Besides what the workload consists of, the worker clusters it was dispatched to."""
    workloads = [one for one in seen.objects if isinstance(one, QueuedWorkload)]
    pods = [one for one in seen.objects if isinstance(one, Pod)]
    return [*reference.related_keys(workloads, pods), *_workers_of(reference, workloads, pods)]


def _workers_of(reference: WorkloadName, workloads: Sequence[QueuedWorkload], pods: Sequence[Pod]) -> list[Key]:
    try:
        home = reference.find(list(workloads), {pod.key: pod for pod in pods})
    except NoSuchWorkload:
        return []
    return [Key(Kind.MULTIKUEUE_CLUSTER, "", name) for name in concerned_clusters(home)]


_KINDS = {(resource.api_version, resource.kind_name): kind for kind, resource in RESOURCES.items()}


class SimulatedMoment(Struct, frozen=True):
    """The first cluster of a scenario as it was then, and the Workloads of the others, by cluster and key."""

    objects: tuple[Object, ...]
    settings: Settings
    now: float
    elsewhere: Mapping[str, Mapping[Key, Object]] = {}


def simulated(moment: Moment) -> SimulatedMoment:
    """The scenario at that second, or at the end. Raises InvalidScenario and NeverSettles."""
    file, seed, at = moment.scenario, moment.seed, moment.at
    installed = InstalledPlugins()
    scenario = load_scenario(file, installed.names)
    if at is not None and scenario.until is not None and at > scenario.until:
        raise InvalidScenario(
            file, "until", f"the scenario ends after {duration_text(scenario.until)}, before --at {duration_text(at)}"
        )
    asked = scenario if at is None else structs.replace(scenario, snapshots=(at,))
    with progress_bar() as progress:
        report = run(asked, seed, NO_FAULTS, progress, installed.enabled_by(*scenario.settings))
    shown = next((shot.objects for shot in report.snapshots if shot.at == at), report.final)
    first, *others = [cluster.name for cluster in scenario.clusters]
    return SimulatedMoment(
        tuple(_decoded(shown[first])),
        scenario.settings[0],
        EPOCH + (report.until if at is None else at),
        {name: {one.key: one for one in _decoded(_workloads_in(shown[name]))} for name in others},
    )


def _workloads_in(manifests: Sequence[Json]) -> list[Json]:
    return [one for one in manifests if _KINDS.get((one["apiVersion"], one["kind"])) is Kind.KUEUE_WORKLOAD]


def _decoded(manifests: Sequence[Json]) -> Iterator[Object]:
    for manifest in manifests:
        kind = _KINDS.get((manifest["apiVersion"], manifest["kind"]))
        if kind is not None:
            yield decode(kind, msgspec.json.encode(manifest))
