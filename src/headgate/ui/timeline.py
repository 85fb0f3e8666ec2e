"""A run as people read it: what was decided when and why, and how the pods ended up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headgate.simulator.report import Report
from headgate.ui.tables import table


def render(report: Report, *, timeline_only: bool = False) -> Iterator[str]:
    """Lines of text; the timeline first."""
    yield from _timeline(report)
    if timeline_only:
        return
    yield ""
    yield from _pods(report)
    yield ""
    yield from _summary(report)


def _timeline(report: Report) -> Iterator[str]:
    several = len(report.final) > 1
    rows = [_told(entry, several) for entry in report.journal] + [_refused(entry, several) for entry in report.refused]
    rows.sort(key=lambda row: row[0])
    yield from table(["TIME", "OBJECT", "DECISION", "WHY"], [[_time(at), *cells] for at, cells in rows])


def _told(entry: Mapping[str, Any], several: bool) -> tuple[float, list[str]]:
    why = f"{entry['reason']}: {entry['message']}" if entry["message"] else entry["reason"]
    return entry["at"], [_object(entry, several), entry["decision"], why]


def _refused(entry: Mapping[str, Any], several: bool) -> tuple[float, list[str]]:
    return entry["at"], [_object(entry, several), f"{entry['verb']} refused", f"{entry['code']} {entry['message']}"]


def _object(entry: Mapping[str, Any], several: bool) -> str:
    found = entry["object"]
    where = f"{found['namespace']}/" if "namespace" in found else ""
    return f"{entry['cluster']}: " * several + f"{found['kind']} {where}{found['name']}"


def _pods(report: Report) -> Iterator[str]:
    several = len(report.final) > 1
    rows = [
        [f"{cluster}: " * several + _name(found), _phase(found), found["spec"].get("nodeName") or "-", _note(found)]
        for cluster, objects in report.final.items()
        for found in objects
        if found["kind"] == "Pod" and found["apiVersion"] == "v1"
    ]
    yield from table(["POD", "PHASE", "NODE", "NOTE"], rows)


def _name(found: Mapping[str, Any]) -> str:
    return f"{found['metadata']['namespace']}/{found['metadata']['name']}"


def _phase(found: Mapping[str, Any]) -> str:
    if "deletionTimestamp" in found["metadata"]:
        return "Terminating"
    return str(found.get("status", {}).get("phase", "Pending"))


def _note(found: Mapping[str, Any]) -> str:
    """Why it is not running, where its status says so."""
    for condition in found.get("status", {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message") or condition.get("reason") or "")
    return ""


def _summary(report: Report) -> Iterator[str]:
    pods, waited = report.summary["pods"], report.summary["waitingSeconds"]
    yield f"after {_time(report.until)}, pods: " + ", ".join(f"{count} {name}" for name, count in pods.items())
    if waited is not None:
        yield f"waited for a node: {waited['min']:g}s to {waited['max']:g}s, median {waited['median']:g}s"
    yield f"{report.summary['decisions']} decisions, {report.summary['effects']} writes"


def _time(seconds: float) -> str:
    return f"{seconds:g}s" if seconds < 1e6 else f"{seconds:.0f}s"
