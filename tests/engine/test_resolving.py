"""What a pod's claims, services and controller mean for it: why it waits, and where it goes when it need not."""

import msgspec
import pytest
from builders import bound, node, pod, shape
from steps import Steps

from headgate.engine.scheduler.resolving import Resolver, Unresolved
from headgate.model.claims import (
    AttachLimits,
    Attachment,
    ClaimDemands,
    ClaimName,
    DeviceClaim,
    StorageClass,
    Volume,
    VolumeClaim,
    ZoneDemand,
)
from headgate.model.cluster_events import ClusterEvent
from headgate.model.effects import PatchStatus
from headgate.model.events import Gone, Observed
from headgate.model.keys import Key, Kind, Target
from headgate.model.node import NodeTerm, PeerDemands, Spread
from headgate.model.objects import ReplicaOwner, Service
from headgate.model.selectors import Operator, Requirement
from headgate.model.settings import Profile, Settings
from headgate.placement.table import NodeTable
from headgate.placement.volumes import Attachments

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
IN_EAST = (NodeTerm(expressions=(Requirement(ZONE, Operator.IN, ("east",)),)),)
EAST, WEST = node("e", labels={ZONE: "east", HOST: "e"}), node("w", cpu=9000, labels={ZONE: "west", HOST: "w"})


def claim(name="data", namespace="default", **fields):
    return VolumeClaim(Key(Kind.VOLUME_CLAIM, namespace, name), f"uid-{name}", "1", **fields)


def bound_claim(name="data", volume="v", **fields):
    return claim(name, volume=volume, bound=True, **fields)


def volume(name="v", labels=None, **fields):
    return Volume(Key(Kind.VOLUME, "", name), f"uid-{name}", "1", labels or {}, **fields)


def storage_class(name="fast", waits=False):
    return StorageClass(Key(Kind.STORAGE_CLASS, "", name), f"uid-{name}", "1", waits)


def devices(name="gpu", **fields):
    return DeviceClaim(Key(Kind.DEVICE_CLAIM, "default", name), f"uid-{name}", "1", **fields)


def using(*names, kind=Kind.VOLUME_CLAIM, name="a", made_for_pod=False, cpu=100, **fields):
    claims = tuple(ClaimName(kind, each, made_for_pod) for each in names)
    return pod(name, shape=shape(cpu, claims=claims), **fields)


def gpu_pod(name="gpu", made_for_pod=False):
    return using(name, kind=Kind.DEVICE_CLAIM, made_for_pod=made_for_pod)


def resolver(*objects, profile=None):
    made = Resolver((profile or Profile(),), Attachments(NodeTable()))
    for each in objects:
        made.observe(each)
    return made


UNBOUND = "pod has unbound immediate PersistentVolumeClaims"


@pytest.mark.parametrize(
    "objects, incoming, why",
    [
        pytest.param([], using("data"), 'persistentvolumeclaim "data" not found', id="no such claim"),
        pytest.param(
            [bound_claim(namespace="elsewhere"), volume()],
            using("data"),
            'persistentvolumeclaim "data" not found',
            id="a claim of another namespace is another claim",
        ),
        pytest.param([claim()], using("data"), UNBOUND, id="a claim without a class that is not bound"),
        pytest.param(
            [claim(storage_class="fast"), storage_class()],
            using("data"),
            UNBOUND,
            id="a claim that its class binds at once",
        ),
        pytest.param([claim(storage_class="gone")], using("data"), UNBOUND, id="a class that is not there"),
        pytest.param(
            [claim(storage_class="fast", volume="v"), storage_class(waits=True), volume()],
            using("data"),
            UNBOUND,
            id="a claim whose binding to its volume is not complete",
        ),
        pytest.param(
            [claim(storage_class="fast"), storage_class(waits=True)],
            using("data"),
            'persistentvolumeclaim "data" waits for a pod to be given a node (storageclass "fast"), '
            "but this scheduler neither binds nor provisions volumes",
            id="a claim that waits for its first consumer is not for us to bind",
        ),
        pytest.param(
            [claim(lost=True, volume="v")],
            using("data"),
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "v"',
            id="a claim that lost its volume",
        ),
        pytest.param(
            [bound_claim(deleted=9.0), volume()],
            using("data"),
            'persistentvolumeclaim "data" is being deleted',
            id="a claim on its way out",
        ),
        pytest.param([bound_claim()], using("data"), 'persistentvolume "v" not found', id="a volume not seen yet"),
        pytest.param(
            [bound_claim(), volume()],
            using("data", "more"),
            'persistentvolumeclaim "more" not found',
            id="all claims must be there",
        ),
        pytest.param(
            [],
            using("a-scratch", made_for_pod=True),
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "a-scratch"',
            id="a claim that is yet to be made for the pod",
        ),
        pytest.param(
            [bound_claim("a-scratch", owner="another"), volume()],
            using("a-scratch", made_for_pod=True),
            "PVC default/a-scratch was not created for pod default/a (pod is not owner)",
            id="a claim that only looks as if made for the pod",
        ),
        pytest.param([], gpu_pod(), 'resourceclaim "gpu" not found', id="no such claim to devices"),
        pytest.param(
            [],
            gpu_pod("", made_for_pod=True),
            'pod "default/a": ResourceClaim not created yet',
            id="a claim to devices that is yet to be made for the pod",
        ),
        pytest.param(
            [devices(allocated=True, deleted=9.0)],
            gpu_pod(),
            'resourceclaim "gpu" is being deleted',
            id="a claim to devices on its way out",
        ),
        pytest.param(
            [devices(allocated=True, owner="another")],
            gpu_pod(made_for_pod=True),
            "ResourceClaim default/gpu was not created for Pod default/a (Pod is not owner)",
            id="a claim to devices made for another pod",
        ),
        pytest.param(
            [devices()],
            gpu_pod(),
            'resourceclaim "gpu" is not allocated yet, and this scheduler allocates no devices',
            id="a claim to devices that is not for us to allocate",
        ),
    ],
)
def test_a_pod_waits_for_its_claims(objects, incoming, why):
    found = resolver(*objects).resolve(incoming)
    assert isinstance(found, Unresolved)
    assert (found.why, found.wake_on) == (why, {ClusterEvent.CLAIMS_CHANGED})
    relaxed = resolver(*objects, profile=Profile(disabled=frozenset({found.rule, "VolumeZone"}))).resolve(incoming)
    assert not isinstance(relaxed, Unresolved), "with the rule switched off the pod does not wait"


@pytest.mark.parametrize(
    "objects, incoming, demands",
    [
        pytest.param([bound_claim(), volume()], using("data"), None, id="a volume that can be reached from everywhere"),
        pytest.param(
            [bound_claim(), volume(terms=IN_EAST)],
            using("data"),
            ClaimDemands(volumes=(IN_EAST,)),
            id="where it can be",
        ),
        pytest.param(
            [bound_claim(), volume(terms=IN_EAST), bound_claim("more", "w"), volume("w", terms=IN_EAST)],
            using("data", "more"),
            ClaimDemands(volumes=(IN_EAST,)),
            id="the same demand twice is one",
        ),
        pytest.param(
            [bound_claim(), volume(labels={ZONE: "west__east", "app": "x"})],
            using("data"),
            ClaimDemands(zones=(ZoneDemand(ZONE, ("east", "west")),)),
            id="zones of its labels",
        ),
        pytest.param(
            [bound_claim(), volume(labels={ZONE: "west__"})], using("data"), None, id="a label with a gap says nothing"
        ),
        pytest.param(
            [bound_claim(), volume(attachment=Attachment("ebs", "h"))],
            using("data"),
            None,
            id="an attachment that no node limits",
        ),
        pytest.param(
            [bound_claim("a-scratch", owner="uid-a"), volume(terms=IN_EAST)],
            using("a-scratch", made_for_pod=True),
            ClaimDemands(volumes=(IN_EAST,)),
            id="a claim made for the pod",
        ),
        pytest.param(
            [devices(allocated=True, terms=IN_EAST)],
            gpu_pod(),
            ClaimDemands(devices=(IN_EAST,)),
            id="allocated devices",
        ),
        pytest.param([devices(allocated=True)], gpu_pod(), None, id="devices that can be reached from everywhere"),
    ],
)
def test_met_claims_become_demands(objects, incoming, demands):
    found = resolver(*objects).resolve(incoming)
    assert found.shape == msgspec.structs.replace(incoming.shape, claims=(), bound_to=demands)
    assert found.key == incoming.key


def test_a_pod_waits_for_its_claim_and_then_runs_where_the_volume_is():
    steps = Steps(EAST, WEST, claim(), using("data"))
    said = f"0/2 nodes are available: {UNBOUND}."
    assert (steps.binds, steps.only(PatchStatus).change.message) == ({}, said)
    assert steps.later(60, Observed(volume(terms=IN_EAST))).binds == {}
    assert steps.see(bound_claim()).binds == {}, "it rests a while after a try in vain"
    assert steps.later(60).binds == {"a": "e"}


def test_a_pod_without_claims_is_not_woken_by_them():
    steps = Steps(node("n", cpu=50), pod("a"))
    steps.later(60, Observed(bound_claim()))
    assert steps.story == [("wait", "Unschedulable", "a")]


def test_a_claim_seen_again_as_it_was_wakes_nobody():
    same = ClusterEvent.CLAIMS_CHANGED
    known = resolver(claim())
    assert known.observe(msgspec.structs.replace(claim(), version="2")) == ()
    assert known.observe(bound_claim()) == (same,)


def test_a_claim_that_is_gone_is_not_found():
    known = resolver(bound_claim(), volume())
    known.lose(claim().key, "another uid")
    assert not isinstance(known.resolve(using("data")), Unresolved)
    known.lose(claim().key, claim().uid)
    assert isinstance(known.resolve(using("data")), Unresolved)


def test_pods_that_name_alike_claims_in_different_namespaces_do_not_wait_for_each_other():
    there = Key(Kind.POD, "elsewhere", "b")
    other = msgspec.structs.replace(using("data", name="b"), key=there)
    steps = Steps(EAST, volume(), using("data"), other)
    steps.later(60, Observed(bound_claim(namespace="elsewhere")))
    assert steps.binds == {"b": "e"}


def test_a_claim_for_one_pod_alone_is_used_by_one_at_a_time():
    alone = bound_claim(single_pod=True)
    first, second = using("data", name="first"), using("data", name="second", created=1.0)
    steps = Steps(EAST, alone, volume(), first, second)
    assert steps.binds == {"first": "e"}
    steps.see(bound(first, "e"))
    steps.later(60, Gone(first.key, first.uid))
    assert steps.binds == {"second": "e"}


def with_one_volume_too_many():
    """Of two pods, each with a volume, the second waits: the node can attach one."""
    limits = AttachLimits(Key(Kind.CSI_NODE, "", "e"), "u", "1", {"ebs": 1})
    seen = [EAST, limits]
    for name in ("one", "two"):
        seen += [bound_claim(name, name), volume(name, attachment=Attachment("ebs", name))]
    first, second = using("one", name="first"), using("two", name="second", created=1.0)
    steps = Steps(*seen, first, second)
    assert steps.binds == {"first": "e"}
    assert "1 node(s) exceed max volume count" in steps.only(PatchStatus).change.message
    return steps, limits


def test_a_node_takes_no_more_volumes_than_it_can_attach():
    steps, limits = with_one_volume_too_many()
    more = msgspec.structs.replace(limits, most={"ebs": 2})
    assert steps.later(60, Observed(more)).binds == {"second": "e"}


def test_with_the_limit_goes_what_kept_a_pod_off():
    steps, limits = with_one_volume_too_many()
    assert steps.later(60, Gone(limits.key, limits.uid)).binds == {"second": "e"}


def test_the_volume_of_a_claim_that_is_gone_is_not_counted_any_more():
    steps, _ = with_one_volume_too_many()
    assert steps.later(60, Gone(claim("one").key, claim("one").uid)).binds == {"second": "e"}


def test_a_pod_whose_claim_is_gone_before_its_turn_waits():
    steps = Steps(bound_claim(), volume())
    steps.step(Gone(claim().key, claim().uid), Observed(EAST), Observed(using("data")))
    assert 'persistentvolumeclaim "data" not found' in steps.only(PatchStatus).change.message


# how pods that say nothing about it are spread

WEB = {"app": "web"}
BY_APP = (Requirement("app", Operator.IN, ("web",)),)
BY_TIER = (Requirement("tier", Operator.EXISTS),)
OF_DB = (Requirement("app", Operator.IN, ("db",)),)
OWNED = Target(Key(Kind.REPLICA_SET, "default", "web"), "uid-web")
OLD = Target(Key(Kind.REPLICATION_CONTROLLER, "default", "web"), "uid-web")


def service(selector, name="web", namespace="default"):
    return Service(Key(Kind.SERVICE, namespace, name), f"uid-{name}", "1", selector)


def replicas(selector=BY_TIER, kind=Kind.REPLICA_SET):
    return ReplicaOwner(Key(kind, "default", "web"), "uid-web", "1", selector)


def default_spread(selector):
    return (Spread(3, HOST, selector, everywhere=True), Spread(5, ZONE, selector, everywhere=True))


@pytest.mark.parametrize(
    "objects, owner, selector",
    [
        pytest.param([service(WEB)], None, BY_APP, id="with the pods of its service"),
        pytest.param([replicas()], OWNED, BY_TIER, id="with those of its ReplicaSet"),
        pytest.param([service(WEB), replicas()], OWNED, (*BY_APP, *BY_TIER), id="with those that are in both"),
        pytest.param([service(WEB), replicas(OF_DB)], OWNED, (*OF_DB, *BY_APP), id="with none where the two disagree"),
        pytest.param(
            [service(WEB), replicas(OF_DB, OLD.key.kind)], OLD, OF_DB, id="a ReplicationController overrules services"
        ),
        pytest.param([service(WEB), service(WEB, "again")], None, BY_APP, id="two services that say the same"),
        pytest.param([service({"app": "db"})], None, None, id="not with those of a service of others"),
        pytest.param([service({})], None, None, id="not with those of a service that selects none"),
        pytest.param([service(WEB, namespace="elsewhere")], None, None, id="nor of one in another namespace"),
        pytest.param([replicas()], None, None, id="not with those of a ReplicaSet that is not its own"),
        pytest.param([replicas(selector=())], OWNED, None, id="nor of one that selects everything"),
        pytest.param([], OWNED, None, id="nor of one not seen yet"),
    ],
)
def test_pods_are_spread_with_those_they_belong_to(objects, owner, selector):
    incoming = pod(labels=WEB, owner=owner)
    found = resolver(*objects).resolve(incoming)
    if selector is None:
        assert found is incoming
    else:
        assert found.shape.peers == PeerDemands(soft_spread=default_spread(selector))


def test_a_pod_that_belongs_with_none_is_handed_back_as_it_is_whichever_like_it_came_before():
    known = resolver(service({"app": "db"}))
    for name in "ab":
        incoming = pod(name, labels=WEB)
        assert known.resolve(incoming) is incoming


@pytest.mark.parametrize("field", ["hard_spread", "soft_spread"])
def test_a_pod_that_says_how_it_is_spread_is_taken_at_its_word(field):
    incoming = pod(labels=WEB, shape=shape(1, peers=PeerDemands(**{field: (Spread(1, ZONE, BY_APP),)})))
    assert resolver(service(WEB)).resolve(incoming) is incoming


def test_what_is_learnt_of_services_and_controllers_counts_from_then_on():
    incoming, known = pod(labels=WEB, owner=OWNED), resolver()
    steps = [
        (lambda: known.observe(service(WEB)), BY_APP),
        (lambda: known.observe(replicas()), (*BY_APP, *BY_TIER)),
        (lambda: known.observe(service({})), BY_TIER),
        (lambda: known.observe(replicas(BY_APP)), BY_APP),
        (lambda: known.lose(replicas().key, "uid-web"), None),
        (lambda: known.observe(service(WEB)), BY_APP),
        (lambda: known.observe(replicas()), (*BY_APP, *BY_TIER)),
        (lambda: known.lose(replicas().key, "uid-web"), BY_APP),
        (lambda: known.lose(service(WEB).key, "uid-web"), None),
    ]
    for change, selector in steps:
        change()
        peers = known.resolve(incoming).shape.peers
        assert peers == (PeerDemands(soft_spread=default_spread(selector)) if selector else None)


def test_pods_of_a_service_go_to_different_nodes_although_one_is_much_larger():
    pods = [pod(name, cpu=10, labels=WEB, created=float(at)) for at, name in enumerate("ab")]
    assert sorted(Steps(EAST, WEST, service(WEB), *pods).binds.values()) == ["e", "w"]
    assert sorted(Steps(EAST, WEST, *pods).binds.values()) == ["w", "w"], "without the service they do not"


def test_default_spreading_can_be_switched_off():
    machines = (EAST, WEST)
    pods = [pod(name, cpu=10, labels=WEB, created=float(at)) for at, name in enumerate("ab")]
    settings = Settings(profiles=(Profile(disabled=frozenset({"PodTopologySpread"})),))
    assert set(Steps(*machines, service(WEB), *pods, settings=settings).binds.values()) == {"w"}
