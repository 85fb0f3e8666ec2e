"""What nodes score under kube-scheduler's default constraints, with and without the label for zones."""

import pytest
from peers_builders import HOST, Around, pod_of, select, zoned

from headgate.model.node import Spread

ZONE = "topology.kubernetes.io/zone"
WEB = select("app=web")
BY_DEFAULT = (Spread(3, HOST, WEB, everywhere=True), Spread(5, ZONE, WEB, everywhere=True))
BY_HAND = (Spread(3, HOST, WEB), Spread(5, ZONE, WEB))


def in_zone(name, zone):
    return zoned(name, labels={ZONE: zone})


NODES = (in_zone("e", "east"), in_zone("w", "west"), zoned("nowhere"))
RUNNING = pod_of("app=web")


@pytest.mark.parametrize(
    "spread, points",
    [
        # by the formula: e has 1*ln(5)+2 for its host and 1*ln(5)+4 for its zone, w has 2 and 4, nowhere has 2
        pytest.param(BY_DEFAULT, [22, 55, 100], id="by default a node in no zone is spread over by its host"),
        # only e and w take part: e has ln(4)+2 and ln(4)+4, w has 2 and 4
        pytest.param(BY_HAND, [66, 100, 0], id="a constraint of the pod's own leaves such a node out"),
    ],
)
def test_points(spread, points):
    around = Around(NODES, [("e", RUNNING)])
    found = around.points("PodTopologySpread", pod_of("app=web", soft_spread=spread))
    assert dict(zip(("e", "w", "nowhere"), points, strict=True)) == found
