"""NodePorts: which host ports can be taken on one node together."""

import pytest
from builders import pod_key
from peers_builders import Around, pod_of, zoned

from headgate.model.cluster_events import ClusterEvent
from headgate.model.node import HostPort
from headgate.placement.placer import NoPlacement


def listening(*ports):
    return pod_of(ports=ports)


@pytest.mark.parametrize(
    "taken, asked, free",
    [
        pytest.param(HostPort(80), HostPort(80), False, id="the same port clashes"),
        pytest.param(HostPort(80), HostPort(81), True, id="another port does not"),
        pytest.param(HostPort(80), HostPort(8), True, id="nor one whose digits begin alike"),
        pytest.param(HostPort(80), HostPort(80, "UDP"), True, id="nor another protocol"),
        pytest.param(
            HostPort(80, ip="10.0.0.1"), HostPort(80, ip="10.0.0.1"), False, id="the same address clashes with itself"
        ),
        pytest.param(HostPort(80, ip="10.0.0.1"), HostPort(80, ip="10.0.0.2"), True, id="two addresses do not clash"),
        pytest.param(HostPort(80), HostPort(80, ip="10.0.0.1"), False, id="every address clashes with one"),
        pytest.param(HostPort(80, ip="10.0.0.1"), HostPort(80), False, id="one clashes with every address"),
        pytest.param(
            HostPort(80, "UDP", "10.0.0.1"), HostPort(80, "TCP"), True, id="every address of another protocol does not"
        ),
    ],
)
def test_two_ports_on_one_node(taken, asked, free):
    around = Around((zoned("n"),), (("n", listening(taken)),))
    assert around.takers(listening(asked)) == (["n"] if free else [])


def test_every_port_must_be_free():
    around = Around((zoned("n"), zoned("m")), (("n", listening(HostPort(80))), ("m", listening(HostPort(81)))))
    assert around.takers(listening(HostPort(80), HostPort(82))) == ["m"]
    assert around.takers(listening(HostPort(80), HostPort(81))) == []


def test_a_pod_without_ports_goes_anywhere():
    assert Around((zoned("n"),), (("n", listening(HostPort(80))),)).takers(pod_of()) == ["n"]


def test_a_port_is_free_again_when_its_pod_is_gone():
    around = Around((zoned("n"),), (("n", listening(HostPort(80))), ("n", listening(HostPort(81)))))
    refused = around.place(listening(HostPort(80)))
    assert isinstance(refused, NoPlacement)
    assert str(refused) == ("0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.")
    assert ClusterEvent.ROOM_FREED in refused.wake_on
    around.table.release(pod_key("placed-0"))
    assert around.takers(listening(HostPort(80))) == ["n"]
    assert around.takers(listening(HostPort(81))) == []


def test_equal_pods_with_a_port_fill_each_node_once():
    around = Around([zoned(f"n{index}") for index in range(6)])
    chosen = []
    for index in range(6):
        one = pod_of(name=f"p{index}", ports=(HostPort(80),))
        chosen.append(around.place(one).node)
        around.table.charge(one, chosen[-1])
    assert sorted(chosen) == around.names
    assert isinstance(around.place(listening(HostPort(80))), NoPlacement)
