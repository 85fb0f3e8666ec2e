"""Makes `src/headgate/apiserver/kubernetes-types.json` from the Go types of the pinned Kubernetes.

`python tests/kubernetes/kubernetes_types.py` writes the file; a test compares it with what this makes. A field is its
number in protobuf, its name in JSON and its type: a scalar, a struct, `[` before a repeated one, `{` before the values
of a map, `*` before what may be there and zero, `~` before a struct whose fields stand in the one around it, `!` before
what is there even when it is empty. A fourth part says how it is merged: `keys` of the items of a list, `set`,
`atomic`, the `merge` key of strategic merge patches (empty: a set), and the `default` of a field that is a key.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

HERE = Path(__file__).resolve().parent
FILE = HERE.parents[1] / "src/headgate/apiserver/kubernetes-types.json"
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
    "k8s.io/api/resource/v1": ("resource.v1", "resource.k8s.io/v1"),
    "k8s.io/api/autoscaling/v1": ("autoscaling.v1", "autoscaling/v1"),
    "k8s.io/api/authentication/v1": ("authentication.v1", "authentication.k8s.io/v1"),
    "k8s.io/api/authorization/v1": ("authorization.v1", "authorization.k8s.io/v1"),
    "k8s.io/api/rbac/v1": ("rbac.v1", "rbac.authorization.k8s.io/v1"),
    "k8s.io/api/admissionregistration/v1": ("admissionregistration.v1", "admissionregistration.k8s.io/v1"),
    "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1": ("apiextensions.v1", "apiextensions.k8s.io/v1"),
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
    "storage.k8s.io/v1": "StorageClass CSINode",
    "node.k8s.io/v1": "RuntimeClass",
    "resource.k8s.io/v1": "ResourceClaim",
    "autoscaling/v1": "Scale",
    "authentication.k8s.io/v1": "TokenRequest TokenReview SelfSubjectReview",
    "authorization.k8s.io/v1": "SubjectAccessReview SelfSubjectAccessReview LocalSubjectAccessReview "
    "SelfSubjectRulesReview",
    "rbac.authorization.k8s.io/v1": "Role RoleBinding ClusterRole ClusterRoleBinding",
    "admissionregistration.k8s.io/v1": "MutatingWebhookConfiguration ValidatingWebhookConfiguration "
    "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding",
    "apiextensions.k8s.io/v1": "CustomResourceDefinition",
}
EARLIER: dict[str, list[list[object]]] = {
    "core.v1.PodSpec": [[42, "workloadRef", "*core.v1.WorkloadReference"]],
    "core.v1.WorkloadReference": [
        [1, "name", "!string"],
        [2, "podGroup", "!string"],
        [3, "podGroupReplicaKey", "string"],
    ],
}
"""Fields of v1.35 that v1.36 does not have any more."""
OF_ANY_VERSION = {"DeleteOptions": "meta.v1.DeleteOptions"}
SPECIAL = {
    "meta.v1.Time": "Time",
    "meta.v1.MicroTime": "MicroTime",
    "meta.v1.Duration": "Duration",
    "meta.v1.FieldsV1": "FieldsV1",
    "resource.Quantity": "Quantity",
    "intstr.IntOrString": "IntOrString",
    "runtime.RawExtension": "RawExtension",
    "apiextensions.v1.JSON": "Any",
    "apiextensions.v1.JSONSchemaPropsOrArray": "Any",
    "apiextensions.v1.JSONSchemaPropsOrBool": "Any",
    "apiextensions.v1.JSONSchemaPropsOrStringArray": "Any",
}
SCALARS = {"string", "int32", "int64", "bool", "float64", "uint32", "uint64"}
SCALARS_OF_GO = {"types.UID": "string", "byte": "byte", "types.NodeName": "string"}
IMPORTED = {"metav1": "meta.v1", "v1": "core.v1", "corev1": "core.v1", "apiv1": "core.v1"}

STRUCT = re.compile(r"((?:^//[^\n]*\n)*)^type (\w+) struct ?\{(?:\}|\n(.*?)^\})", re.MULTILINE | re.DOTALL)
ALIAS = re.compile(r"^type (\w+) (\[\]\w+|map\[\w+\][\w.]+|string|int32|int64|bool)$", re.MULTILINE)
FIELD = re.compile(r'^\s+(?:(\w+)\s+)?(\S+)\s+`json:"([^"]*)"((?: [^`]*)?)`')
MARK = re.compile(r"^\s*//\s*\+(\w+)=(\S+)\s*$")
TAG = re.compile(r'(\w+):"([^"]*)"')
DEFAULTED_KEYS = ("protocol",)

Field = list[object]


class Types:
    """The structs and the names of other types of all packages, by their names in the file."""

    def __init__(self, folders: dict[str, Path]) -> None:
        self.fields: dict[str, list[Field]] = {}
        self.aliases: dict[str, str] = {}
        self.atomic: set[str] = set()
        sources = {PACKAGES[name][0]: _source(folder) for name, folder in folders.items()}
        for package, text in sources.items():
            for name, meaning in ALIAS.findall(text):
                self.aliases[f"{package}.{name}"] = meaning
        for package, text in sources.items():
            for comment, name, body in STRUCT.findall(text):
                self.fields[f"{package}.{name}"] = list(self._fields(package, body))
                if "+structType=atomic" in comment:
                    self.atomic.add(f"{package}.{name}")
        for name, fields in EARLIER.items():
            self.fields[name] = self.fields.get(name, []) + fields

    def _fields(self, package: str, body: str) -> Iterator[Field]:
        marks: dict[str, list[str]] = {}
        for line in body.splitlines():
            if mark := MARK.match(line):
                marks.setdefault(mark[1], []).append(mark[2])
            elif found := FIELD.match(line):
                tags = dict(TAG.findall(found[4]))
                if "protobuf" in tags:
                    yield self._field(package, found, tags, marks)
                marks = {}
            elif not line.strip().startswith("//"):
                marks = {}

    def _field(self, package: str, found: re.Match[str], tags: dict[str, str], marks: dict[str, list[str]]) -> Field:
        name, kind, (json_name, *options) = found[1], found[2], found[3].split(",")
        number = int(tags["protobuf"].split(",")[1])
        if "inline" in options or (not name and not json_name):
            return [number, "", f"~{self._type(package, kind)}"]
        of = self._type(package, kind)
        merging = _merging(json_name, of, tags, marks)
        shown = f"!{of}" if "omitempty" not in options and "omitzero" not in options else of
        return [number, json_name, shown, merging] if merging else [number, json_name, shown]

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


def _merging(name: str, kind: str, tags: dict[str, str], marks: dict[str, list[str]]) -> dict[str, object]:
    """How the field is merged. Lists are atomic unless marked, as are structs and maps that are marked."""
    found: dict[str, object] = {}
    by_merge = "merge" in tags.get("patchStrategy", "").split(",")
    listed = marks.get("listType", [""])[0] or ("map" if by_merge and "patchMergeKey" in tags else "")
    if listed == "map":
        found["keys"] = marks.get("listMapKey") or [tags["patchMergeKey"]]
    elif listed == "set" or (not listed and by_merge and kind.startswith("[")):
        found["set"] = True
    if "atomic" in marks.get("mapType", []) + marks.get("structType", []):
        found["atomic"] = True
    if by_merge and kind.startswith("["):
        found["merge"] = tags.get("patchMergeKey", "")
    if name in DEFAULTED_KEYS and "default" in marks:
        found["default"] = json.loads(marks["default"][0])
    return found


def _qualified(package: str, kind: str) -> str:
    owner, dot, name = kind.rpartition(".")
    return f"{IMPORTED.get(owner, owner)}.{name}" if dot else f"{package}.{name}"


def _source(folder: Path) -> str:
    return "\n".join(file.read_text() for file in sorted(folder.glob("*.go")) if "generated" not in file.name)


def made() -> dict[str, Any]:
    """The content of the file."""
    types = Types({name: _folder(name) for name in PACKAGES})
    packages = {version: package for package, version in PACKAGES.values()}
    kinds = {f"{version} {kind}": f"{packages[version]}.{kind}" for version, of in KINDS.items() for kind in of.split()}
    kinds |= OF_ANY_VERSION
    found: dict[str, list[Field]] = {}
    wanted = list(kinds.values())
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        found[name] = sorted(types.fields[name], key=lambda field: cast("int", field[0]))
        inner = (re.sub(r"^[!*\[{~]+", "", cast("str", kind)) for _, _, kind, *_ in found[name])
        wanted += [each for each in inner if each not in SCALARS and each not in SPECIAL.values() and each != "bytes"]
    return {
        "kinds": kinds,
        "atomic": sorted(types.atomic & found.keys()),
        "types": {name: found[name] for name in sorted(found)},
    }


def _folder(package: str) -> Path:
    command = ["go", "list", "-f", "{{.Dir}}", package]
    found = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=True)
    return Path(found.stdout.strip())


def rendered() -> str:
    document = made()
    lines = [f"{json.dumps(name)}:{json.dumps(of, separators=(',', ':'))}" for name, of in document["types"].items()]
    kinds, atomic = (json.dumps(document[part], separators=(",", ":")) for part in ("kinds", "atomic"))
    return f'{{"kinds":{kinds},\n"atomic":{atomic},\n"types":{{\n' + ",\n".join(lines) + "\n}}\n"


if __name__ == "__main__":
    FILE.write_text(rendered())
    sys.stdout.write(f"{FILE}\n")
