"""Makes `src/headgate/apiserver/handlers/protobuf-fields.json` from the Go types of the pinned Kubernetes.

`python tests/kubernetes/protobuf_fields.py` writes the file; a test compares it with what this makes. A field is its
number, its name in JSON and its type: a scalar, a message, `[` before a repeated one, `{` before the values of a map,
`*` before what may be there and zero, `~` before a message whose fields stand in the one around it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FILE = HERE.parents[1] / "src/headgate/apiserver/handlers/protobuf-fields.json"
PACKAGES = {
    "k8s.io/api/core/v1": ("core.v1", "v1"),
    "k8s.io/api/apps/v1": ("apps.v1", "apps/v1"),
    "k8s.io/api/batch/v1": ("batch.v1", "batch/v1"),
    "k8s.io/api/policy/v1": ("policy.v1", "policy/v1"),
    "k8s.io/api/scheduling/v1": ("scheduling.v1", "scheduling.k8s.io/v1"),
    "k8s.io/api/coordination/v1": ("coordination.v1", "coordination.k8s.io/v1"),
    "k8s.io/api/events/v1": ("events.v1", "events.k8s.io/v1"),
    "k8s.io/api/storage/v1": ("storage.v1", "storage.k8s.io/v1"),
    "k8s.io/api/node/v1": ("node.v1", "node.k8s.io/v1"),
    "k8s.io/apimachinery/pkg/apis/meta/v1": ("meta.v1", ""),
}
KINDS = {
    "v1": "Pod Node Namespace Event ConfigMap Secret ServiceAccount Service PersistentVolumeClaim ResourceQuota "
    "ReplicationController PersistentVolume LimitRange Binding",
    "apps/v1": "Deployment ReplicaSet StatefulSet",
    "batch/v1": "Job CronJob",
    "policy/v1": "PodDisruptionBudget Eviction",
    "scheduling.k8s.io/v1": "PriorityClass",
    "coordination.k8s.io/v1": "Lease",
    "events.k8s.io/v1": "Event",
    "storage.k8s.io/v1": "StorageClass",
    "node.k8s.io/v1": "RuntimeClass",
}
OF_ANY_VERSION = {"DeleteOptions": "meta.v1.DeleteOptions"}
SPECIAL = {
    "meta.v1.Time": "Time",
    "meta.v1.MicroTime": "MicroTime",
    "meta.v1.Duration": "Duration",
    "meta.v1.FieldsV1": "FieldsV1",
    "resource.Quantity": "Quantity",
    "intstr.IntOrString": "IntOrString",
    "runtime.RawExtension": "RawExtension",
}
SCALARS = {"string", "int32", "int64", "bool", "float64", "uint32", "uint64"}
SCALARS_OF_GO = {"types.UID": "string", "byte": "byte", "types.NodeName": "string"}
IMPORTED = {"metav1": "meta.v1", "v1": "core.v1", "corev1": "core.v1", "apiv1": "core.v1"}

STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
ALIAS = re.compile(r"^type (\w+) (\[\]\w+|map\[\w+\][\w.]+|string|int32|int64|bool)$", re.MULTILINE)
FIELD = re.compile(r'^\s+(?:(\w+)\s+)?(\S+)\s+`json:"([^"]*)"(?: \S+)*? protobuf:"\w+,(\d+),[^"]*"', re.MULTILINE)


class Types:
    """The structs and the names of other types of all packages, by their names in the file."""

    def __init__(self, folders: dict[str, Path]) -> None:
        self.fields: dict[str, list[tuple[int, str, str]]] = {}
        self.aliases: dict[str, str] = {}
        sources = {PACKAGES[name][0]: _source(folder) for name, folder in folders.items()}
        for package, text in sources.items():
            for name, meaning in ALIAS.findall(text):
                self.aliases[f"{package}.{name}"] = meaning
        for package, text in sources.items():
            for name, body in STRUCT.findall(text):
                self.fields[f"{package}.{name}"] = [self._field(package, *found) for found in FIELD.findall(body)]

    def _field(self, package: str, name: str, kind: str, tag: str, number: str) -> tuple[int, str, str]:
        json_name, *options = tag.split(",")
        if "inline" in options or (not name and not json_name):
            return int(number), "", f"~{self._type(package, kind)}"
        return int(number), json_name, self._type(package, kind)

    def _type(self, package: str, kind: str) -> str:
        if kind.startswith("*"):
            return f"*{self._type(package, kind[1:])}"
        if kind == "[]byte":
            return "bytes"
        if kind.startswith("[]"):
            return f"[{self._type(package, kind[2:])}"
        if kind.startswith("map["):
            return f"{{{self._type(package, kind.partition(']')[2])}"
        if kind in SCALARS:
            return kind
        if kind in SCALARS_OF_GO:
            return SCALARS_OF_GO[kind]
        whole = _qualified(package, kind)
        if whole in SPECIAL:
            return SPECIAL[whole]
        alias = self.aliases.get(whole)
        return whole if alias is None else self._type(whole.rpartition(".")[0], alias)


def _qualified(package: str, kind: str) -> str:
    owner, dot, name = kind.rpartition(".")
    return f"{IMPORTED.get(owner, owner)}.{name}" if dot else f"{package}.{name}"


def _source(folder: Path) -> str:
    return "\n".join(file.read_text() for file in sorted(folder.glob("*.go")) if "generated" not in file.name)


def made() -> dict[str, object]:
    """The content of the file."""
    types = Types({name: _folder(name) for name in PACKAGES})
    packages = {version: package for package, version in PACKAGES.values()}
    kinds = {f"{version} {kind}": f"{packages[version]}.{kind}" for version, of in KINDS.items() for kind in of.split()}
    kinds |= OF_ANY_VERSION
    messages: dict[str, list[tuple[int, str, str]]] = {}
    wanted = list(kinds.values())
    while wanted:
        name = wanted.pop()
        if name in messages:
            continue
        messages[name] = sorted(types.fields[name])
        inner = (re.sub(r"^[*\[{~]+", "", kind) for _, _, kind in messages[name])
        wanted += [each for each in inner if each not in SCALARS and each not in SPECIAL.values() and each != "bytes"]
    return {"kinds": kinds, "messages": {name: messages[name] for name in sorted(messages)}}


def _folder(package: str) -> Path:
    command = ["go", "list", "-f", "{{.Dir}}", package]
    found = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=True)
    return Path(found.stdout.strip())


def rendered() -> str:
    document = made()
    lines = [f"{json.dumps(name)}:{json.dumps(of, separators=(',', ':'))}" for name, of in document["messages"].items()]  # type: ignore[attr-defined]
    kinds = json.dumps(document["kinds"], separators=(",", ":"))
    return f'{{"kinds":{kinds},\n"messages":{{\n' + ",\n".join(lines) + "\n}}\n"


if __name__ == "__main__":
    FILE.write_text(rendered())
    sys.stdout.write(f"{FILE}\n")
