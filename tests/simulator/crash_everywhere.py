"""The crash test for any scenario: our process may die before or after any of its writes, and nothing changes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from headgate.simulator.faults import Faults, WriteFault
from headgate.simulator.report import Objects, Report
from headgate.simulator.scenario import Scenario
from headgate.simulator.virtual_time import run

PASSING = frozenset({"resourceVersion", "creationTimestamp", "managedFields"})
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def lasting(objects: Objects) -> dict[str, list[Any]]:
    """All that must be equal: everything but Events, versions, times; uids are replaced by whose they are."""
    return {
        cluster: [_lasting(found, _owners(manifests)) for found in manifests if found["kind"] != "Event"]
        for cluster, manifests in objects.items()
    }


def _owners(manifests: Any) -> dict[str, str]:
    return {
        found["metadata"]["uid"]: f"{found['kind']} {found['metadata'].get('namespace')}/{found['metadata']['name']}"
        for found in manifests
    }


def _lasting(value: Any, owners: dict[str, str]) -> Any:
    match value:
        case dict():
            return {name: _lasting(part, owners) for name, part in value.items() if name not in PASSING}
        case list():
            return [_lasting(part, owners) for part in value]
        case str():
            return "a time" if TIME.fullmatch(value) else owners.get(value, value)
    return value


def crashes(scenario: Scenario, seed: int) -> Iterator[tuple[int, WriteFault, Report]]:
    """The run with a crash before, and with one after, each single write of the undisturbed run."""
    for number in range(writes_of(run(scenario, seed))):
        for fault in (WriteFault.CRASH_BEFORE, WriteFault.CRASH_AFTER):
            yield number, fault, run(scenario, seed, Faults(at={number: fault}, restart=0.0))


def writes_of(report: Report) -> int:
    return int(report.summary["effects"])


def assert_crashes_change_nothing(scenario: Scenario, seed: int = 7) -> None:
    undisturbed = run(scenario, seed)
    assert writes_of(undisturbed) > 0, "a scenario in which we do nothing proves nothing"
    assert not undisturbed.failures
    expected = lasting(undisturbed.final)
    for number, fault, report in crashes(scenario, seed):
        assert lasting(report.final) == expected, f"{fault} write {number}"
        assert not report.failures, f"{fault} write {number}"
