"""Node lifecycle: what becomes of pods whose node is gone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from headgate.model.effects import Delete, PatchStatus, PodRun
from headgate.model.events import Gone, Observed
from headgate.model.keys import Key, Kind
from headgate.model.node import Node
from headgate.model.pod import Phase, Pod, PodShape
from headgate.model.resources import Resources
from headgate.world.nodes import NodeLifecycle

KEY = Key(Kind.NODE, "", "n")
NODE, NODE_GONE = Observed(Node(KEY, "n-uid", "1", {}, {}, Resources())), Gone(KEY, "n-uid")
POD = Pod(Key(Kind.POD, "default", "a"), "a-uid", "1", {}, {}, PodShape(), 0.0, node="n", phase=Phase.RUNNING)


@pytest.mark.parametrize(
    "batches, removed",
    [
        pytest.param([[NODE, Observed(POD)], [NODE_GONE]], True, id="its pods are removed when it goes"),
        pytest.param([[NODE], [NODE_GONE], [Observed(POD)]], True, id="a binding that came too late is removed too"),
        pytest.param([[Observed(POD)]], False, id="a node never seen may still come"),
        pytest.param([[Observed(POD)], [NODE_GONE]], False, id="also when its absence is reported"),
        pytest.param([[NODE], [NODE_GONE], [NODE, Observed(POD)]], False, id="a node that came back keeps its pods"),
        pytest.param([[NODE, Observed(POD)], [Gone(POD.key, "a-uid"), NODE_GONE]], False, id="a pod gone is gone"),
        pytest.param([[NODE, Observed(replace(POD, node=""))], [NODE_GONE]], False, id="unbound pods do not care"),
    ],
)
def test_pods_of_a_node_that_is_gone(batches, removed):
    rule = NodeLifecycle()
    effects = [effect for batch in batches for effect in rule.react(batch, 7.0)]
    removal = [
        PatchStatus(POD.target, PodRun(Phase.FAILED, 7.0, "NodeLost")),
        Delete(POD.target, grace=0),
    ]
    assert effects == (removal if removed else [])


def test_a_pod_is_removed_once():
    rule = NodeLifecycle()
    rule.react([NODE, Observed(POD)], 0.0)
    assert rule.react([NODE_GONE], 1.0)
    assert rule.react([NODE_GONE], 2.0) == []
