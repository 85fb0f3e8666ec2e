"""Worker clusters: which are connected, since when one is lost, and what MultiKueueClusters and checks show of that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from headgate.fleet.replicas import Workers
from headgate.lifecycle.workload.conditions import second
from headgate.model.effects import AdmissionCheckStatus, Connect, Disconnect, MultiKueueClusterStatus, PatchStatus
from headgate.model.events import RemoteConnection, RemoteState
from headgate.model.keys import Condition, Key, Kind, Target
from headgate.model.kueue_names import MULTIKUEUE
from headgate.model.queues import AdmissionCheck, MultiKueueCluster, MultiKueueConfig

ACTIVE = "Active"
CONFIG_KIND = "MultiKueueConfig"
_NO_SOURCE = RemoteConnection(
    "",
    RemoteState.REFUSED,
    "MultiKueueClusterProfileFeatureDisabled",
    "spec.clusterSource.kubeConfig is missing; cluster profiles are not supported",
)


class WorkerCluster(Struct):
    """One worker cluster: its MultiKueueCluster as observed, and how the connection to it stands."""

    observed: MultiKueueCluster
    told: RemoteConnection | None = None  # None: nothing was told since it was asked for
    lost_at: float | None = None  # when its connection was lost, as far as this process knows
    was_seen: bool = False  # it was connected since our process started

    @property
    def shown(self) -> Condition | None:
        return next((one for one in self.observed.conditions if one.type == ACTIVE), None)

    @property
    def is_connected(self) -> bool:
        return self.told is not None and self.told.state is RemoteState.CONNECTED

    @property
    def is_active(self) -> bool:
        """As told, or, until something is told, as its condition says."""
        if self.told is not None:
            return self.is_connected
        return self.shown is not None and self.shown.status == "True"

    @property
    def lost_since(self) -> float | None:
        """Since when it cannot be asked: the condition says so also after a restart. None: that is not known yet."""
        shown = self.shown
        if shown is not None and shown.status == "False":
            return shown.at
        return self.lost_at


class WorkerClusters:
    def __init__(self) -> None:
        self._clusters: dict[str, WorkerCluster] = {}
        self._asked: dict[str, Connect] = {}  # by cluster
        self._configs: dict[str, MultiKueueConfig] = {}
        self._checks: dict[str, AdmissionCheck] = {}
        self._dirty = True

    @property
    def connected(self) -> frozenset[str]:
        return frozenset(name for name, cluster in self._clusters.items() if cluster.is_connected)

    # what is now true

    def observe(self, found: MultiKueueCluster | MultiKueueConfig | AdmissionCheck) -> bool:
        """Whether it is another than before in more than its status."""
        self._dirty = True
        if isinstance(found, MultiKueueConfig):
            config, self._configs[found.name] = self._configs.get(found.name), found
            return config is None or config.clusters != found.clusters
        if isinstance(found, AdmissionCheck):
            check, self._checks[found.key.name] = self._checks.get(found.key.name), found
            return check is None or (check.controller, check.parameters) != (found.controller, found.parameters)
        known = self._clusters.get(found.name)
        if known is not None and known.observed.uid == found.uid:
            before, known.observed = known.observed, found
            return _source(before) != _source(found)
        self._clusters[found.name] = WorkerCluster(found)
        self._asked.pop(found.name, None)
        return True

    def lose(self, key: Key, uid: str) -> None:
        self._dirty = True
        cluster, config, check = (kept.get(key.name) for kept in (self._clusters, self._configs, self._checks))
        if key.kind is Kind.MULTIKUEUE_CLUSTER and isinstance(cluster, WorkerCluster) and cluster.observed.uid == uid:
            del self._clusters[key.name]
        elif key.kind is Kind.MULTIKUEUE_CONFIG and isinstance(config, MultiKueueConfig) and config.uid == uid:
            del self._configs[key.name]
        elif key.kind is Kind.ADMISSION_CHECK and isinstance(check, AdmissionCheck) and check.uid == uid:
            del self._checks[key.name]

    def hear(self, told: RemoteConnection, now: float) -> bool:
        """Whether the connection is another than before. What is told of a cluster we do not know is passed over."""
        cluster = self._clusters.get(told.cluster)
        if cluster is None or told.cluster not in self._asked:
            return False
        before, cluster.told = cluster.told, told
        self._dirty = True
        if cluster.is_connected:
            cluster.lost_at, cluster.was_seen = None, True
        elif cluster.lost_at is None:
            cluster.lost_at = second(now)
        return before is None or before.state is not told.state

    # what that means

    def is_multikueue(self, check: str) -> bool:
        known = self._checks.get(check)
        return known is not None and known.controller == MULTIKUEUE

    def workers_of(self, check: str) -> Workers:
        """The worker clusters that the check may use."""
        config = self._config_of(self._checks.get(check))
        clusters = config.clusters if config is not None else ()
        return Workers(clusters, frozenset(name for name in clusters if self.is_connected(name)))

    @property
    def all_workers(self) -> Workers:
        return Workers(tuple(sorted(self._clusters)), self.connected)

    def each(self) -> Iterator[tuple[str, bool]]:
        """Every worker cluster, and whether it is connected."""
        return ((name, cluster.is_connected) for name, cluster in sorted(self._clusters.items()))

    def is_connected(self, name: str) -> bool:
        cluster = self._clusters.get(name)
        return cluster is not None and cluster.is_connected

    def lost_since(self, name: str) -> float | None:
        """Since when it cannot be asked; None while that is not known. One that does not exist is lost for ever."""
        cluster = self._clusters.get(name)
        return 0.0 if cluster is None else cluster.lost_since

    def is_unseen(self, name: str) -> bool:
        """Whether nothing is known of what it has, because it was not connected since our process started."""
        cluster = self._clusters.get(name)
        return cluster is not None and not cluster.was_seen

    def _config_of(self, check: AdmissionCheck | None) -> MultiKueueConfig | None:
        named = check.parameters if check is not None else None
        return self._configs.get(named.name) if named is not None and named.kind == CONFIG_KIND else None

    # what to do

    def connections(self) -> Iterator[Connect | Disconnect]:
        """Connects to clusters that are new or have another source, and forgets those that are gone."""
        if not self._dirty:
            return
        for name, cluster in sorted(self._clusters.items()):
            wanted = _source(cluster.observed)
            if wanted is None:
                cluster.told = _NO_SOURCE
            elif self._asked.get(name) != wanted:
                self._asked[name] = wanted
                cluster.told = None
                yield wanted
        for name in [
            name for name in self._asked if name not in self._clusters or not _is_wanted(self._clusters[name])
        ]:
            del self._asked[name]
            yield Disconnect(name)

    def statuses(self, now: float) -> Iterator[tuple[PatchStatus, str]]:
        """The conditions Active of clusters and checks that are not as they should be, with the observed versions."""
        if not self._dirty:
            return
        self._dirty = False
        for _, cluster in sorted(self._clusters.items()):
            wanted = _cluster_condition(cluster, now)
            if wanted is not None and wanted != cluster.shown:
                observed = cluster.observed
                target = Target(observed.key, observed.uid, observed.version)
                yield PatchStatus(target, MultiKueueClusterStatus(_with(observed.conditions, wanted))), observed.version
        for _, check in sorted(self._checks.items()):
            if check.controller == MULTIKUEUE and check.deleted is None:
                condition = self._check_condition(check, now)
                if condition not in check.conditions:
                    exact = Target(check.key, check.uid, check.version)
                    change = AdmissionCheckStatus(_with(check.conditions, condition))
                    yield PatchStatus(exact, change), check.version

    def look_again(self) -> None:
        """A write of a status did not take effect."""
        self._dirty = True

    def _check_condition(self, check: AdmissionCheck, now: float) -> Condition:
        active, reason, message = self._usability(check)
        shown = next((one for one in check.conditions if one.type == ACTIVE), None)
        status = str(active)
        at = shown.at if shown is not None and shown.status == status else second(now)
        return Condition(ACTIVE, status, reason, message, at, check.generation)

    def _usability(self, check: AdmissionCheck) -> tuple[bool, str, str]:
        if check.parameters is None or check.parameters.kind != CONFIG_KIND:
            return False, "BadConfig", f"spec.parameters: expected the name of a {CONFIG_KIND}"
        config = self._config_of(check)
        if config is None:
            return False, "BadConfig", f"{CONFIG_KIND} {check.parameters.name} does not exist"
        missing = [name for name in config.clusters if name not in self._clusters]
        inactive = [name for name in config.clusters if name not in missing and not self._clusters[name].is_active]
        if not missing and not inactive:
            return True, "Active", "The admission check is active"
        found = (_listed("Missing clusters", missing), _listed("Inactive clusters", inactive))
        message = ", ".join(text for text in found if text)
        if len(missing) + len(inactive) < len(config.clusters):
            return True, "SomeActiveClusters", message
        return False, "NoUsableClusters", message


def _source(observed: MultiKueueCluster) -> Connect | None:
    if not observed.secret and not observed.path:
        return None
    return Connect(observed.name, observed.secret, observed.path)


def _is_wanted(cluster: WorkerCluster) -> bool:
    return _source(cluster.observed) is not None


def _cluster_condition(cluster: WorkerCluster, now: float) -> Condition | None:
    """None while nothing is told: what was shown before a restart stays, and with it the time of the first loss."""
    if cluster.told is None or cluster.observed.deleted is not None:
        return None
    status, shown = str(cluster.is_connected), cluster.shown
    since = second(now) if cluster.lost_at is None or cluster.is_connected else cluster.lost_at
    at = shown.at if shown is not None and shown.status == status else since
    reason, message = (ACTIVE, "Connected") if cluster.is_connected else (cluster.told.reason, cluster.told.message)
    return Condition(ACTIVE, status, reason or "ClientConnectionFailed", message, at, cluster.observed.generation)


def _with(conditions: Sequence[Condition], wanted: Condition) -> tuple[Condition, ...]:
    return (*(one for one in conditions if one.type != wanted.type), wanted)


def _listed(text: str, names: Sequence[str]) -> str:
    return f"{text}: {', '.join(names)}" if names else ""
