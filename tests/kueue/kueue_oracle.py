"""Kueue itself: a program of ours around its scheduler as an oracle, and its own one for load tests, which has its core
controllers and its scheduler on an API server. Both are built once and kept.

`python tests/kueue/kueue_oracle.py` makes sure of them and prints where they are.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SOURCES = ("go.mod", "go.sum", "oracle.go", "cluster.go", "stage.go", "schedule.go", "schedule.s")
MODULE = "sigs.k8s.io/kueue"
LOAD_TESTED = f"{MODULE}/test/performance/scheduler/minimalkueue"
FLAGS = ("-trimpath", "-ldflags", "-s -w")
GATES = {
    # On by default in what follows this release, and in ours.
    "RecomputeAssignmentUponPreemptionTargetsOverlap": True,
    "UnadmittedWorkloadsObservability": True,
    # Off by default; ours has no other way, for without it a victim can come back before its preemptor for ever.
    "PrioritizePreemptorWorkloads": True,
    # Off by default; on in ours. It concerns workloads with preemption gates alone.
    "MultiKueueOrchestratedPreemption": True,
}


class MissingOracle(Exception):
    """The oracle could not be had; the text says what to do about it."""


def pinned_version() -> str:
    """The version of Kueue that go.mod asks for, such as v0.19.2."""
    found = re.search(r"^\s*(?:require )?sigs\.k8s\.io/kueue (v\S+)$", (HERE / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise MissingOracle("tests/kueue/go.mod requires no sigs.k8s.io/kueue")
    return found.group(1)


def oracle() -> Path:
    """The program that answers `their_answers`; built anew, which may take minutes, when what it is made of changed."""
    return _built("oracle", ".")


def kueue_on_a_server() -> Path:
    """The program whose core controllers and scheduler work on the cluster of `--kubeconfig`."""
    return _built("minimalkueue", LOAD_TESTED)


def kueue_definitions() -> Path:
    """The folder of Kueue's own CustomResourceDefinitions."""
    command = [_go(), "list", "-m", "-f", "{{.Dir}}", MODULE]
    told = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=True)
    return Path(told.stdout.strip()) / "config" / "components" / "crd" / "bases"


def _built(name: str, package: str) -> Path:
    root = os.environ.get("HEADGATE_CACHE") or Path.home() / ".cache" / "headgate"
    folder = Path(root) / f"kueue-{pinned_version()}"
    target, stamp = folder / name, folder / f"{name}.stamp"
    if target.is_file() and stamp.is_file() and stamp.read_text() == _stamp():
        return target
    _build(target, package)
    stamp.write_text(_stamp())
    return target


def _stamp() -> str:
    parts = [*((HERE / name).read_bytes() for name in SOURCES), " ".join(FLAGS).encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _go() -> str:
    go = shutil.which("go")
    if go is None:
        raise MissingOracle(f"Kueue {pinned_version()} is built with Go, and there is no `go`: install Go")
    return go


def _build(target: Path, package: str) -> None:
    command = [_go(), "build", *FLAGS, "-o"]
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(f".{os.getpid()}")
    _say(f"building {target.name} of Kueue {pinned_version()} with Go; minutes the first time")
    started = time.monotonic()
    if subprocess.run([*command, unfinished, package], cwd=HERE, check=False).returncode != 0:
        raise MissingOracle(f"building {target.name} failed (see above): mend that")
    unfinished.replace(target)
    _say(f"built in {time.monotonic() - started:.0f} s")


def their_answers(worlds: Sequence[dict[str, Any]], rounds: int, cycles: int) -> list[list[list[dict[str, Any]]]]:
    """For each world the cycles of each round, as stage.go plays them."""
    lines = [json.dumps({**world, "gates": GATES, "rounds": rounds, "cycles": cycles}) for world in worlds]
    done = subprocess.run([oracle()], input="\n".join(lines), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line)["rounds"] for line in done.stdout.splitlines()]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    try:
        for program in (oracle, kueue_on_a_server):
            print(program())
    except MissingOracle as trouble:
        _say(f"error: {trouble}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
