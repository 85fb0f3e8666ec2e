"""What must hold of hostile objects: they are read or refused, decided about without an exception, and answered."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from fleet_scenes import JOBS, WORKLOADS, GuardedFleet
from hostile_objects import MAKERS, USUAL, encoded, hostile, hostile_value, mutated, well_formed

from headgate.api.admission import InvalidReview, answer, read_once
from headgate.api.decode import InvalidObject, Undecodable, decode, identity, unreadable
from headgate.api.install_manifests import WEBHOOKS
from headgate.api.requests import calls_for
from headgate.api.rereading import Rereading
from headgate.engine.loop import Engine
from headgate.engine.quarantine import GuardedEngine, Quarantine
from headgate.gates.pre_enqueue import PRE_ENQUEUE
from headgate.gates.webhooks import HANDLERS
from headgate.lifecycle.jobframework.pod_group import role_hash
from headgate.model.admission import WebhookSettings
from headgate.model.effects import Connect, Disconnect, RemoteWrite, WakeAt, Write
from headgate.model.events import (
    Event,
    FleetEvent,
    Gone,
    Observed,
    Outcome,
    RemoteConnection,
    RemoteEvent,
    RemoteState,
    TimerFired,
    Unreadable,
    WriteError,
)
from headgate.model.keys import Kind
from headgate.model.objects import Object
from headgate.model.settings import FRAMEWORKS, QuotaSettings, Role, Settings

KINDS = sorted(MAKERS)
TENANTS = (Kind.POD, Kind.KUEUE_WORKLOAD, Kind.JOB)
START = 1_767_225_600.0 + 3600
QUOTA = QuotaSettings(frameworks=FRAMEWORKS, preemption_gates=True)
ROLES = (frozenset(Role), frozenset(Role), *(frozenset({role}) for role in Role))
SETTINGS = tuple(Settings(roles=roles, quota=QUOTA) for roles in ROLES)
RULES = WebhookSettings(QUOTA, role_hash)
ASKED_ABOUT = sorted({f"{hook.resource.plural}.{hook.resource.group}".rstrip(".") for hook in WEBHOOKS})


def read(kind: Kind, value: dict[str, Any]) -> Object | None:
    """None where it is refused; raises Undecodable where our own code fails, which is what is looked for."""
    raw = encoded(value)
    try:
        identity(kind, raw)
        return decode(kind, raw)
    except Undecodable:
        raise
    except InvalidObject as refused:
        assert len(str(refused)) < 3000
        return None


def decided_about(seed: int) -> int:
    """A cluster of well-formed and hostile objects lives for a while; how many hostile ones there were."""
    dice = Random(seed)
    usual = [read(kind, well_formed(kind, dice, name)) for kind, names in USUAL.items() for name in names]
    usual += [read(kind, well_formed(kind, dice)) for kind in dice.choices(TENANTS, k=4)]
    made = [(kind, hostile(kind, dice)) for kind in dice.choices(KINDS, k=6)]
    made += [(kind, hostile(kind, dice)) for kind in dice.choices(TENANTS, k=4)]
    found = [one for kind, value in made if (one := read(kind, value)) is not None]
    quarantine, settings = Quarantine(), dice.choice(SETTINGS)
    engine = GuardedEngine(lambda: Engine(settings, PRE_ENQUEUE), quarantine, lambda: Engine(settings, PRE_ENQUEUE))
    kinds = {kind: place for place, kind in enumerate(engine.reads)}
    found = [one for one in found if one.key.kind in kinds]
    first = [one for one in usual if one is not None and one.key.kind in kinds] + found[::2]
    first.sort(key=lambda one: kinds[one.key.kind])
    _live(engine, [Observed(one) for one in first], [Observed(one) for one in found[1::2]], dice)
    assert not quarantine
    return len(made)


def _live(engine: GuardedEngine, first: list[Observed], later: list[Observed], dice: Random) -> None:
    """Step by step: writes are answered, mostly well; objects come and go; time passes."""
    now, batch = START, list[Event | FleetEvent](first)
    for turn in range(6):
        effects = engine.step(batch, now)
        engine.gauges()
        batch = []
        for effect in effects:
            if isinstance(effect, WakeAt):
                assert effect.at == effect.at  # no NaN
                batch.append(TimerFired(effect.timer))
            elif isinstance(effect, Connect):
                batch.append(RemoteConnection(effect.cluster, dice.choice(tuple(RemoteState)), "r", "m"))
            elif isinstance(effect, RemoteWrite):
                batch.append(RemoteEvent(effect.cluster, _outcome(effect.write, dice)))
            elif not isinstance(effect, Disconnect):
                batch.append(_outcome(effect, dice))
        if turn == 1:
            batch += later
        if turn > 2:
            batch += [Gone(each.object.key, each.object.uid) for each in dice.sample(first, min(3, len(first)))]
        now += dice.choice((0.0, 1.0, 60.0, 4000.0))


def _outcome(write: Write, dice: Random) -> Outcome:
    for call in calls_for(write, "headgate"):
        assert call.body is not None
    trouble = dice.choice((None, None, None, *WriteError))
    return Outcome(write, trouble, "m" if trouble else "")


def answered(seed: int) -> int:
    """Hostile reviews get a denial or an allowance from every webhook, in process and as over HTTP."""
    dice = Random(seed)
    kind = Kind(dice.choice(ASKED_ABOUT))
    made = hostile(kind, dice)
    old = hostile(kind, dice) if dice.random() < 0.6 else None
    if dice.random() < 0.05:
        made = {name: hostile_value(dice) for name in ("metadata", "spec", "status")}
    plural = kind.split(".")[0]
    group = kind.partition(".")[2]
    review = {
        "request": {
            "uid": "u",
            "resource": {"group": group, "resource": plural},
            "namespace": dice.choice(("default", "", "x" * 300)),
            "object": made,
            "oldObject": old,
        }
    }
    for hook in WEBHOOKS:
        if (hook.resource.group, hook.resource.plural) != (group, plural):
            continue
        handler = HANDLERS[hook.webhook]
        asking = answer(encoded(review), lambda question, handler=handler: handler(question, RULES))
        try:
            next(asking)
            while True:
                asking.send(())
        except StopIteration as done:
            assert done.value["response"]["allowed"] in (True, False)
        except InvalidReview:
            assert old is not None or isinstance(made, dict)
    return 1


def reread(seed: int) -> int:
    """Read again and again as it changes, a hostile object is what it is when it is read for the first time."""
    dice = Random(seed)
    kind = dice.choice((Kind.KUEUE_WORKLOAD, Kind.CLUSTER_QUEUE, Kind.LOCAL_QUEUE, *KINDS))
    first = well_formed(kind, dice)
    status = mutated({"status": first.get("status") or {}}, dice).get("status")
    values = (first, hostile(kind, dice), mutated(first, dice), {**first, "status": status})
    reading = Rereading()
    for value in [json.loads(encoded(value)) for value in values if b"1" * 4301 not in encoded(value)]:
        assert reading.read(kind, value) == read_once(kind, value)
    return len(values) - 1


MOST_TOLD = 4  # hostile objects of worker clusters in one history


def told_by_workers(seed: int) -> int:
    """A manager is told hostile forms of its own objects on a worker cluster, in the middle of all that it does there.

    Nobody is quarantined, and afterwards it dispatches as before.
    """
    dice = Random(seed)
    fleet = GuardedFleet({"a": 4, "b": 4}, worker_lost_timeout=dice.choice((5.0, 900.0)))
    if dice.random() < 0.5:
        fleet.occupy("a", "own", 4).occupy("b", "own", 4)  # it is blocked there
    fleet.submit()
    for _ in range(dice.randrange(8)):
        fleet.round()
    for _ in range(MOST_TOLD):
        made = mutated(dice.choice(_of_worker(fleet, dice)), dice)
        told = _told(Kind.KUEUE_WORKLOAD if "podSets" in (made.get("spec") or ()) else Kind.JOB, made)
        if told is not None and "a" in fleet.remotes:
            fleet.home.inbox.append(RemoteEvent("a", told))
        for _ in range(dice.randrange(4)):
            fleet.round()
    assert not fleet.quarantine
    fleet.restart()
    fleet.submit("other").later(30.0)
    assert fleet.home.workload("other")["status"].get("nominatedClusterNames") or fleet.running("other")
    assert not fleet.rebuilt
    return MOST_TOLD


def _of_worker(fleet: GuardedFleet, dice: Random) -> list[Any]:
    """What the worker has of ours; a well-formed Workload where it has nothing."""
    worker = fleet.workers["a"]
    found = [each for each in (*worker.list(WORKLOADS), *worker.list(JOBS)) if each["metadata"]["name"] != "own"]
    return found or [well_formed(Kind.KUEUE_WORKLOAD, dice)]


def _told(kind: Kind, value: dict[str, Any]) -> Observed | Unreadable | None:
    raw = encoded(value)
    try:
        about = identity(kind, raw)
    except InvalidObject:
        return None
    try:
        return Observed(decode(kind, raw))
    except Undecodable:
        raise
    except InvalidObject as refused:
        return unreadable(about, raw, f"{refused.path}: {refused.expected}")


LAWS = {"decided_about": decided_about, "answered": answered, "reread": reread, "told_by_workers": told_by_workers}
