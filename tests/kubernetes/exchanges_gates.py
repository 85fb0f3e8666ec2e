"""Exchanges about scheduling gates, each with the codes a server must answer: the table of pod scheduling readiness."""

from __future__ import annotations

from typing import NamedTuple

from exchanges import NODES, PODS, Step, bind, create, get, json_patch, merge, node, pod

FIRST, SECOND, THIRD = ({"name": f"example.com/{name}"} for name in ("first", "second", "third"))
GATED = create(pod(schedulingGates=[FIRST, SECOND, THIRD]))
PLACED = [create(node(), NODES), create(pod()), bind()]
PLACED_CODES = (201, 201, 201)


class Exchange(NamedTuple):
    steps: list[Step]
    codes: tuple[int, ...]  # one a step


def remove_gate(place: int) -> Step:
    return json_patch({"op": "remove", "path": f"/spec/schedulingGates/{place}"})


def set_gates(*gates: dict[str, str]) -> Step:
    return merge({"spec": {"schedulingGates": list(gates)}})


def label() -> Step:
    return merge({"metadata": {"labels": {"a": "b"}}})


TABLE = {
    "unscheduled with gates: created": Exchange([GATED, get(f"{PODS}/it")], (201, 200)),
    "unscheduled with gates: no update makes it so": Exchange([create(pod()), set_gates(FIRST)], (201, 422)),
    "unscheduled without gates: created": Exchange([create(pod()), get(f"{PODS}/it")], (201, 200)),
    "unscheduled without gates: an update makes it so": Exchange([GATED, set_gates(), label()], (201, 200, 200)),
    "scheduled with gates: not created": Exchange([create(pod(schedulingGates=[FIRST], nodeName="n"))], (422,)),
    "scheduled with gates: no update makes it so": Exchange([*PLACED, set_gates(FIRST)], (*PLACED_CODES, 422)),
    "scheduled with gates: not by naming a node either": Exchange(
        [GATED, merge({"spec": {"nodeName": "n"}})], (201, 422)
    ),
    "scheduled without gates: created": Exchange([create(pod(nodeName="n")), get(f"{PODS}/it")], (201, 200)),
    "scheduled without gates: updated": Exchange([*PLACED, label(), set_gates()], (*PLACED_CODES, 200, 200)),
}

BESIDES = {
    "a gated pod is not bound": Exchange([GATED, bind(), get(f"{PODS}/it")], (201, 409, 200)),
    "not while one gate is left either": Exchange([GATED, set_gates(THIRD), bind()], (201, 200, 409)),
    "the last gate gone, it is bound": Exchange(
        [create(node(), NODES), GATED, set_gates(), bind(), get(f"{PODS}/it")], (201, 201, 200, 201, 200)
    ),
    "gates go from the first to the last": Exchange([GATED, *(remove_gate(0) for _ in "abc")], (201, 200, 200, 200)),
    "gates go from the last to the first": Exchange([GATED, *map(remove_gate, (2, 1, 0))], (201, 200, 200, 200)),
    "the middle gate goes first": Exchange([GATED, *map(remove_gate, (1, 1, 0))], (201, 200, 200, 200)),
    "what is left may change its order": Exchange([GATED, set_gates(THIRD, FIRST)], (201, 200)),
    "a gate is not added": Exchange([GATED, set_gates(FIRST, SECOND, THIRD, {"name": "example.com/more"})], (201, 422)),
    "a gate is not exchanged": Exchange([GATED, set_gates({"name": "example.com/more"})], (201, 422)),
    "a gate that went does not come back": Exchange(
        [GATED, remove_gate(1), set_gates(FIRST, SECOND, THIRD)], (201, 200, 422)
    ),
    "not after the last one went either": Exchange([GATED, set_gates(), set_gates(FIRST)], (201, 200, 422)),
}

EXCHANGES = {**TABLE, **BESIDES}
