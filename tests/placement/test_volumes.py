"""Where claims that are bound already let a pod run, rule by rule."""

import pytest
from builders import bound, node, pod, shape
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.engine.scheduler.plugins import plugins_for
from headgate.model.claims import Attachment, ClaimDemands, ClaimName, ZoneDemand
from headgate.model.cluster_events import ClusterEvent
from headgate.model.keys import Key, Kind
from headgate.model.node import NodeTerm
from headgate.model.selectors import Operator, Requirement
from headgate.model.settings import Profile
from headgate.placement.neighbours import Neighbours
from headgate.placement.placer import NoPlacement, Placement, Placer
from headgate.placement.table import NodeTable
from headgate.placement.volumes import Attachments

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"


def among(label, *values):
    return NodeTerm(expressions=(Requirement(label, Operator.IN, values),))


def named(*names):
    return NodeTerm(fields=(Requirement("metadata.name", Operator.IN, names),))


def demanding(**demands):
    return pod(shape=shape(1, bound_to=ClaimDemands(**demands)))


def world(*nodes, profile=None):
    table = NodeTable()
    attachments = Attachments(table)
    for one in nodes:
        table.put(one)
    placer = Placer(plugins_for(profile or Profile(), Neighbours(table), attachments).rules)
    return placer, table, attachments


def takers(nodes, incoming, profile=None):
    """The nodes that would take the pod, each standing alone."""
    found = {one.name: world(one, profile=profile)[0].place(incoming) for one in nodes}
    return [name for name, answer in found.items() if isinstance(answer, Placement)]


EAST, WEST = node("east", labels={ZONE: "e"}), node("west", labels={ZONE: "w"})
OLD_EAST, NOWHERE = node("old-east", labels={OLD_ZONE: "e"}), node("nowhere")
ABROAD = node("abroad", labels={REGION: "far"})
ALL = (EAST, WEST, OLD_EAST, NOWHERE, ABROAD)


@pytest.mark.parametrize(
    "demands, wanted",
    [
        pytest.param({}, ["east", "west", "old-east", "nowhere", "abroad"], id="no demands, no limits"),
        pytest.param({"volumes": ((among(ZONE, "e"),),)}, ["east"], id="a volume in one zone ties the pod to it"),
        pytest.param(
            {"volumes": ((among(ZONE, "e"), among(REGION, "far")),)},
            ["east", "abroad"],
            id="one matching term of a volume is enough",
        ),
        pytest.param(
            {"volumes": ((among(ZONE, "e", "w"),), (among(ZONE, "w"),))}, ["west"], id="every volume must be reached"
        ),
        pytest.param({"volumes": ((),)}, [], id="a volume that can be reached from nowhere"),
        pytest.param({"volumes": ((named("east"),),)}, [], id="volumes do not know nodes by name"),
        pytest.param({"devices": ((named("east"),),)}, ["east"], id="devices do"),
        pytest.param({"devices": ((among(ZONE, "w"),), (named("east"),))}, [], id="devices in two places at once"),
        pytest.param(
            {"zones": (ZoneDemand(ZONE, ("e",)),)},
            ["east", "nowhere"],
            id="a zone label keeps the pod off all nodes that are somewhere else, and lets it run on those nowhere",
        ),
        pytest.param(
            {"zones": (ZoneDemand(ZONE, ("e", "w")),)}, ["east", "west", "nowhere"], id="a volume in two zones"
        ),
        pytest.param(
            {"zones": (ZoneDemand(OLD_ZONE, ("e",)),)},
            ["east", "old-east", "nowhere"],
            id="an old label of a volume is compared with the node's new one too",
        ),
        pytest.param({"taken": True}, [], id="a claim for one pod that another one uses"),
    ],
)
def test_claims_say_where_a_pod_may_run(demands, wanted):
    assert takers(ALL, demanding(**demands)) == wanted


NODE_HAPPENINGS = {ClusterEvent.NODE_ADDED, ClusterEvent.NODE_CHANGED, ClusterEvent.CLAIMS_CHANGED}


@pytest.mark.parametrize(
    "demands, rule, reason, wake_on",
    [
        pytest.param(
            {"volumes": ((among(ZONE, "x"),),)},
            "VolumeBinding",
            "node(s) didn't match PersistentVolume's node affinity",
            NODE_HAPPENINGS,
            id="the volume's node affinity",
        ),
        pytest.param(
            {"zones": (ZoneDemand(ZONE, ("x",)),)},
            "VolumeZone",
            "node(s) had no available volume zone",
            NODE_HAPPENINGS,
            id="the volume's zone",
        ),
        pytest.param(
            {"devices": ((named("x"),),)},
            "DynamicResources",
            "resourceclaim not available on the node",
            NODE_HAPPENINGS,
            id="the devices' nodes",
        ),
        pytest.param(
            {"taken": True},
            "VolumeRestrictions",
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
            "already in-use by another pod",
            {ClusterEvent.NODE_ADDED, ClusterEvent.ROOM_FREED, ClusterEvent.CLAIMS_CHANGED},
            id="a claim in use",
        ),
    ],
)
def test_a_refusal_is_said_in_kube_schedulers_words_and_ends_when_it_can(demands, rule, reason, wake_on):
    found = world(EAST, WEST)[0].place(demanding(**demands))
    curable = 2 if ClusterEvent.ROOM_FREED in wake_on else 0
    assert found == NoPlacement(2, ((reason, 2),), (rule,), frozenset(wake_on), curable=curable)
    switched_off = Profile(disabled=frozenset({rule}))
    assert takers([EAST], demanding(**demands), profile=switched_off) == ["east"]


def using(name, *claims):
    return pod(name, shape=shape(1, claims=tuple(ClaimName(Kind.VOLUME_CLAIM, claim) for claim in claims)))


def claim(name):
    return Key(Kind.VOLUME_CLAIM, "default", name)


def limited(most, *running):
    """Two nodes of which the first can attach `most` volumes; pods, each with its claims, run there."""
    placer, table, attachments = world(node("n"), node("other", cpu=1))
    attachments.limit("n", {"ebs": most})
    for name in ("a", "b", "c"):
        attachments.bind(claim(name), Attachment("ebs", name))
    for index, claims in enumerate(running):
        table.charge(using(f"p{index}", *claims), "n")
    return placer, table, attachments


def wanting(*handles, cpu=2):
    return pod(shape=shape(cpu, bound_to=ClaimDemands(attachments=tuple(Attachment("ebs", each) for each in handles))))


@pytest.mark.parametrize(
    "most, running, handles, fits",
    [
        pytest.param(2, [["a"]], ["b"], True, id="the last one that can be attached"),
        pytest.param(1, [["a"]], ["b"], False, id="one too many"),
        pytest.param(1, [["a"]], ["a"], True, id="a volume that is attached already counts once"),
        pytest.param(2, [["a"], ["a"]], ["b"], True, id="so does one that two pods use"),
        pytest.param(2, [["a"]], ["a", "b"], True, id="of two the one that is missing"),
        pytest.param(2, [["a"]], ["b", "c"], False, id="two new ones where there is room for one"),
        pytest.param(0, [["a"]], ["a"], True, id="nothing more is attached, so the limit does not matter"),
    ],
)
def test_a_node_attaches_no_more_volumes_than_it_can(most, running, handles, fits):
    found = limited(most, *running)[0].place(wanting(*handles))
    if fits:
        assert isinstance(found, Placement)
    else:
        assert found.reasons == (("Insufficient cpu", 1), ("node(s) exceed max volume count", 1))
        assert ClusterEvent.ROOM_FREED in found.wake_on


def test_a_limit_of_another_driver_does_not_matter():
    placer, _, attachments = limited(0)
    attachments.limit("n", {"other-driver": 0})
    assert isinstance(placer.place(wanting("b")), Placement)
    assert attachments.is_limited("other-driver")


def test_a_claim_learnt_of_late_counts_for_the_pods_that_use_it():
    placer, _, attachments = limited(1, ["late"])
    assert isinstance(placer.place(wanting("b")), Placement)
    attachments.bind(claim("late"), Attachment("ebs", "late"))
    assert isinstance(placer.place(wanting("b")), NoPlacement)
    attachments.bind(claim("late"), None)
    assert isinstance(placer.place(wanting("b")), Placement)


MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 3), st.sampled_from("nm"), st.sets(st.sampled_from("abc"))),
        st.tuples(st.just("take"), st.integers(0, 3)),
        st.tuples(st.just("bind"), st.sampled_from("abc"), st.sampled_from(["x", "y", None])),
        st.tuples(st.just("drop"), st.sampled_from("nm")),
        st.tuples(st.just("return"), st.sampled_from("nm")),
    ),
    max_size=12,
)


@settings(deadline=None)
@given(MOVES)
def test_counts_that_followed_every_change_equal_those_of_the_end(moves):
    _, table, attachments = world(node("n"), node("m"))
    handles = {}
    for move in moves:
        match move:
            case "put", number, where, claims:
                table.charge(bound(using(f"p{number}", *sorted(claims)), where), where)
            case "take", number:
                table.release(using(f"p{number}").key)
            case "bind", name, handle:
                handles[name] = handle
                attachments.bind(claim(name), Attachment("ebs", handle) if handle else None)
            case "drop", name:
                table.drop(name)
            case "return", name:
                table.put(node(name))
    at_the_end = Attachments(table)
    for name, handle in handles.items():
        at_the_end.bind(claim(name), Attachment("ebs", handle) if handle else None)
    for each in ("n", "m"):
        attachments.limit(each, {"ebs": 1})
        at_the_end.limit(each, {"ebs": 1})
    for name in "abc":
        assert attachments.uses(claim(name)) == at_the_end.uses(claim(name))
    for wanted in ((Attachment("ebs", "x"),), (Attachment("ebs", "x"), Attachment("ebs", "z"))):
        assert attachments.attachable(wanted).tolist() == at_the_end.attachable(wanted).tolist()
