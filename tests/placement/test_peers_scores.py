"""Balance, soft taints and preferred nodes: the points each node has. All numbers are worked out by hand."""

import msgspec
import pytest
from builders import tolerating
from peers_builders import Around, pod_of, zoned

from headgate.model.node import NodeTerm, PreferredTerm, Taint, TaintEffect
from headgate.model.selectors import Operator, Requirement
from headgate.model.settings import Profile, ScoringStrategy

EVEN = zoned("even", cpu=1000, memory=1000)


@pytest.mark.parametrize(
    "node, placed, incoming, points",
    [
        pytest.param(EVEN, [], pod_of(cpu=500, memory=100), 65, id="an empty node loses 20 by a lopsided pod"),
        pytest.param(EVEN, [], pod_of(cpu=300, memory=300), 75, id="a pod that takes equal shares changes nothing"),
        pytest.param(
            EVEN,
            [pod_of(cpu=500, memory=0)],
            pod_of(cpu=0, memory=500),
            87,
            id="one that evens out gains, rounded down",
        ),
        pytest.param(
            EVEN, [pod_of(cpu=1000, memory=0)], pod_of(cpu=0, memory=1000), 100, id="at most everything is gained"
        ),
        pytest.param(EVEN, [], pod_of(cpu=1000, memory=0), 50, id="at most everything is lost"),
        pytest.param(
            EVEN,
            [pod_of(cpu=900, memory=0), pod_of(cpu=900, memory=0)],
            pod_of(cpu=1000, memory=0),
            75,
            id="a share of more than all counts as all",
        ),
        pytest.param(EVEN, [pod_of(cpu=500)], pod_of(cpu=0, memory=0), 0, id="a pod that asks for nothing has no say"),
        pytest.param(
            zoned("bare", cpu=1000, memory=0),
            [],
            pod_of(cpu=500, memory=0),
            75,
            id="a node with one of both is in balance",
        ),
    ],
)
def test_balance_gives(node, placed, incoming, points):
    around = Around((node,), [(node.name, each) for each in placed])
    assert around.points("NodeResourcesBalancedAllocation", incoming) == {node.name: points}


def shunned(name, *keys, effect=TaintEffect.PREFER_NO_SCHEDULE):
    return zoned(name, taints=tuple(Taint(key, "", effect) for key in keys))


@pytest.mark.parametrize(
    "nodes, incoming, points",
    [
        pytest.param(
            (shunned("none"), shunned("one", "x"), shunned("two", "x", "y")),
            pod_of(),
            {"none": 100, "one": 50, "two": 0},
            id="fewer soft taints are better",
        ),
        pytest.param(
            (shunned("none"), shunned("one", "x"), shunned("two", "x", "y")),
            pod_of(tolerations=tolerating("y")),
            {"none": 100, "one": 0, "two": 0},
            id="those that are tolerated do not count",
        ),
        pytest.param(
            (shunned("none"), shunned("one", "x")),
            pod_of(tolerations=tolerating("x")),
            None,
            id="nobody is compared when all are tolerated",
        ),
        pytest.param(
            (shunned("one", "x"), shunned("three", "x", "y", "z")),
            pod_of(),
            {"one": 67, "three": 0},
            id="the worst has none of the points and the others their share",
        ),
        pytest.param(
            (shunned("none"), shunned("hard", "x", effect=TaintEffect.NO_SCHEDULE)),
            pod_of(),
            None,
            id="taints that keep pods off are no preference",
        ),
    ],
)
def test_soft_taints_give(nodes, incoming, points):
    assert Around(nodes).points("TaintToleration", incoming) == points


def test_a_soft_taint_outweighs_room():
    around = Around((shunned("roomy", "x"), zoned("tight", cpu=200)))
    assert around.place(pod_of(cpu=100)).node == "tight"


def disk(name, **labels):
    return zoned(name, labels=labels)


def prefers(*weighted):
    terms = [
        PreferredTerm(weight, NodeTerm((Requirement(key, Operator.IN, (value,)),))) for weight, key, value in weighted
    ]
    return pod_of(preferred_terms=tuple(terms))


@pytest.mark.parametrize(
    "nodes, incoming, points",
    [
        pytest.param(
            (disk("both", disk="fast", gen="2"), disk("fast", disk="fast"), disk("new", gen="2"), disk("neither")),
            prefers((80, "disk", "fast"), (20, "gen", "2")),
            {"both": 100, "fast": 80, "new": 20, "neither": 0},
            id="the weights of all terms that hold add up",
        ),
        pytest.param(
            (disk("fast", disk="fast"), disk("new", gen="2"), disk("neither")),
            prefers((80, "disk", "fast"), (20, "gen", "2")),
            {"fast": 100, "new": 25, "neither": 0},
            id="the best has all the points and the others their share",
        ),
        pytest.param((disk("neither"),), prefers((80, "disk", "fast")), None, id="nobody is compared when none holds"),
        pytest.param(
            (disk("one"), disk("other")),
            pod_of(preferred_terms=(PreferredTerm(5, NodeTerm()),)),
            None,
            id="an empty term holds nowhere",
        ),
        pytest.param(
            (disk("one"), disk("other")),
            pod_of(
                preferred_terms=(
                    PreferredTerm(5, NodeTerm(fields=(Requirement("metadata.name", Operator.IN, ("other",)),))),
                )
            ),
            {"one": 0, "other": 100},
            id="a term may name a node",
        ),
    ],
)
def test_preferred_nodes_give(nodes, incoming, points):
    assert Around(nodes).points("NodeAffinity", incoming) == points


def having(name, **sizes):
    """A node with images of so many MiB."""
    return msgspec.structs.replace(zoned(name), images={f"{image}:1": size << 20 for image, size in sizes.items()})


@pytest.mark.parametrize(
    "nodes, images, points",
    [
        pytest.param(
            (having("n", x=1000), having("m", x=1000)), ("x:1",), {"n": 100, "m": 100}, id="an image that is everywhere"
        ),
        pytest.param(
            (having("n", x=1000), having("m")),
            ("x:1",),
            {"n": 48, "m": 0},  # (500-23)/(1000-23)
            id="one that half of the nodes have counts by half",
        ),
        pytest.param(
            (having("n", x=46), having("m")), ("x:1",), {"n": 0, "m": 0}, id="one that is fetched in no time is nothing"
        ),
        pytest.param(
            (having("n", x=9000), having("m")), ("x:1",), {"n": 100, "m": 0}, id="one that is huge counts as large"
        ),
        pytest.param(
            (having("n", x=1000), having("m", x=1000)),
            ("x:1", "y:1"),
            {"n": 49, "m": 49},  # (1000-23)/(2000-23)
            id="more containers need more to be there",
        ),
        pytest.param(
            (having("n", x=600), having("m", y=600)),
            ("x:1", "x:1", "y:1"),
            {"n": 19, "m": 9},  # (600-23)/(3000-23) and (300-23)/(3000-23)
            id="an image of two containers counts twice",
        ),
        pytest.param((having("n", x=1000), having("m")), ("y:1",), None, id="nobody is compared when no one has any"),
    ],
)
def test_images_give(nodes, images, points):
    assert Around(nodes).points("ImageLocality", pod_of(images=images)) == points


MOST = ScoringStrategy("MostAllocated")
CURVE = ((0, 0), (50, 10), (100, 0))
CURVED = ScoringStrategy("RequestedToCapacityRatio", shape=CURVE)
DEVICES = ScoringStrategy("MostAllocated", (("cpu", 1), ("example.com/gpu", 3)))


@pytest.mark.parametrize(
    "strategy, placed, incoming, points",
    [
        pytest.param(ScoringStrategy(), [], pod_of(cpu=250, memory=500), 62, id="the free shares' mean, rounded down"),
        pytest.param(
            ScoringStrategy(),
            [pod_of(cpu=900)],
            pod_of(cpu=200, memory=1),
            49,
            id="what is overdrawn has no free share",
        ),
        pytest.param(MOST, [], pod_of(cpu=250, memory=500), 37, id="the used shares' mean, rounded down"),
        pytest.param(MOST, [pod_of(cpu=900)], pod_of(cpu=200, memory=1), 50, id="what is overdrawn is all used"),
        pytest.param(
            ScoringStrategy(resources=(("cpu", 1), ("memory", 3))),
            [],
            pod_of(cpu=500, memory=100),
            80,
            id="weights weigh",
        ),
        pytest.param(CURVED, [], pod_of(cpu=500, memory=250), 75, id="a curve gives 100 at its top and 50 half way up"),
        pytest.param(CURVED, [], pod_of(cpu=750, memory=0), 50, id="what the curve gives nothing for is left out"),
        pytest.param(
            ScoringStrategy("RequestedToCapacityRatio", (("cpu", 1), ("memory", 2)), CURVE),
            [],
            pod_of(cpu=350, memory=250),
            57,  # (70 + 2·50) / 3
            id="between the curve's points the line decides, and the mean is rounded to the nearest",
        ),
        pytest.param(DEVICES, [], pod_of(cpu=500, memory=0), 50, id="a device the pod does not ask for has no say"),
    ],
)
def test_the_strategy_gives(strategy, placed, incoming, points):
    around = Around((EVEN,), [("even", each) for each in placed], profile=Profile(scoring=strategy))
    assert around.points("NodeResourcesFit", incoming) == {"even": points}
