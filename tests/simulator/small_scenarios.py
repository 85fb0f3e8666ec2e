"""Scenarios in a few words, for tests."""

from __future__ import annotations

import json
from typing import Any

from headgate.simulator.report import Report
from headgate.simulator.scenario import Scenario, parse_scenario


def pod(name: str, *, cpu: str = "1", run: str = "", stop: str = "", **spec: Any) -> dict[str, Any]:
    given = {"headgate.dev/run-seconds": run, "headgate.dev/stop-seconds": stop}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {key: value for key, value in given.items() if value},
        },
        "spec": {"schedulerName": "headgate", "restartPolicy": "Never", "containers": [container], **spec},
    }


def job(name: str, *, run: str = "10", code: str = "0", cpu: str = "1", **spec: Any) -> dict[str, Any]:
    made = pod("of-a-job", cpu=cpu, run=run)
    made["metadata"]["annotations"]["headgate.dev/exit-code"] = code
    template = {"metadata": {"annotations": made["metadata"]["annotations"]}, "spec": made["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": template, **spec},
    }


def priority_class(name: str, value: int) -> dict[str, Any]:
    named = {"name": name}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": named, "value": value}


def workload(name: str, min_count: int, mode: str = "Pod", **spec: Any) -> dict[str, Any]:
    """With one group called workers."""
    gang = {"minCount": min_count, "preemptionMode": mode}
    return {
        "apiVersion": "scheduling.headgate.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"podGroups": [{"name": "workers", "policy": {"gang": gang}}], **spec},
    }


def member(name: str, of: str, **fields: Any) -> dict[str, Any]:
    made = pod(name, **fields)
    made["metadata"]["labels"] = {
        "scheduling.headgate.dev/workload": of,
        "scheduling.headgate.dev/pod-group": "workers",
    }
    return made


def nodes(count: int = 1, cpu: str = "4", name: str = "n-%d", **fields: Any) -> dict[str, Any]:
    return {"count": count, "name": name, "capacity": {"cpu": cpu, "memory": "8Gi"}, **fields}


def scenario(*objects: dict[str, Any], machines: Any = None, **fields: Any) -> Scenario:
    """One cluster with these objects; JSON is YAML."""
    main = {"name": "main", "nodes": [nodes()] if machines is None else machines, "objects": list(objects)}
    document = {"kind": "Scenario", "clusters": [main], "until": "settled", **fields}
    return parse_scenario(json.dumps(document), "small.yaml")


def found(report: Report, kind: str, name: str, cluster: str = "main") -> dict[str, Any] | None:
    """The object as it is at the end."""
    for value in report.final[cluster]:
        if value["kind"] == kind and value["metadata"]["name"] == name:
            return value
    return None


def where(report: Report, name: str) -> str | None:
    """The node the pod is on at the end."""
    value = found(report, "Pod", name)
    return None if value is None else value["spec"].get("nodeName")


def decisions(report: Report, name: str) -> list[tuple[float, str]]:
    return [(entry["at"], entry["decision"]) for entry in report.journal if entry["object"]["name"] == name]
