"""Where the programs of a real Kubernetes come from.

`python tests/kubernetes/assets.py` makes sure of all of them and prints where they are. A program is taken from
`KUBEBUILDER_ASSETS` when it is there, otherwise from a cache that is filled once: etcd from the system's packages, the
Kubernetes programs built with Go from the module that `go.mod` beside this file pins, and an older kubectl from that of
`oldest/go.mod`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
OLDEST = HERE / "oldest"
BUILT = ("kube-apiserver", "kube-scheduler", "kubectl")
PROGRAMS = (*BUILT, "etcd")
DEBIAN_PACKAGE = "etcd-server"
OR_ELSE = "or set KUBEBUILDER_ASSETS to a folder that holds kube-apiserver, etcd and kubectl"


class MissingProgram(Exception):
    """A program could not be obtained; the text says what to do about it."""


def pinned_version(module: Path = HERE) -> str:
    """The version of Kubernetes that the go.mod in that folder asks for, such as v1.36.3."""
    found = re.search(r"^require k8s\.io/kubernetes (v\S+)$", (module / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise MissingProgram(f"{module / 'go.mod'} requires no k8s.io/kubernetes")
    return found.group(1)


def program(name: str) -> Path:
    """The program of that name, ready to run; obtained first where need be, which may take minutes once."""
    given = os.environ.get("KUBEBUILDER_ASSETS")
    if given and (Path(given) / name).is_file():
        return Path(given) / name
    return _etcd() if name == "etcd" else _built(name)


def oldest_kubectl() -> Path:
    """A kubectl of some years ago, as many have it who talk to a cluster of today."""
    return _built("kubectl", OLDEST)


def cache_folder(module: Path) -> Path:
    root = os.environ.get("HEADGATE_CACHE") or Path.home() / ".cache" / "headgate"
    return Path(root) / f"kubernetes-{pinned_version(module)}"


def _etcd() -> Path:
    found = shutil.which("etcd") or _installed_etcd()
    if found is None:
        raise MissingProgram(f"there is no etcd: apt-get install {DEBIAN_PACKAGE}, {OR_ELSE}")
    return Path(found)


def _installed_etcd() -> str | None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None
    _say(f"installing {DEBIAN_PACKAGE}")
    install = ["apt-get", "install", "--yes", "--no-install-recommends", DEBIAN_PACKAGE]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    if subprocess.run(install, env=environment, stdout=sys.stderr, check=False).returncode != 0:
        subprocess.run(["apt-get", "update"], stdout=sys.stderr, check=False)
        subprocess.run(install, env=environment, stdout=sys.stderr, check=False)
    return shutil.which("etcd")


def _built(name: str, module: Path = HERE) -> Path:
    """The cached program, built anew when go.mod, go.sum or the way to build it changed."""
    target, stamp = cache_folder(module) / name, cache_folder(module) / f"{name}.stamp"
    if target.is_file() and stamp.is_file() and stamp.read_text() == _stamp(module):
        return target
    _build(name, target, module)
    stamp.write_text(_stamp(module))
    return target


def _stamp(module: Path) -> str:
    flags = " ".join(_flags(pinned_version(module))).encode()
    parts = [(module / "go.mod").read_bytes(), (module / "go.sum").read_bytes(), flags]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _flags(version: str) -> list[str]:
    major, minor, _ = version.removeprefix("v").split(".", 2)
    # Without these the programs call themselves v0.0.0, and kube-apiserver derives its feature set from the version.
    named = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    linked = [f"-X k8s.io/component-base/version.{name}={value}" for name, value in named.items()]
    return ["-trimpath", "-ldflags", " ".join(["-s", "-w", *linked])]


def _build(name: str, target: Path, module: Path) -> None:
    go, version = shutil.which("go"), pinned_version(module)
    if go is None:
        raise MissingProgram(f"{name} {version} is built with Go, and there is no `go`: install Go, {OR_ELSE}")
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(f".{os.getpid()}")
    _say(f"building {name} {version} with Go; minutes the first time")
    started = time.monotonic()
    command: list[str | Path] = [go, "build", *_flags(version), "-o", unfinished, f"k8s.io/kubernetes/cmd/{name}"]
    done = subprocess.run(command, cwd=module, check=False)
    if done.returncode != 0:
        raise MissingProgram(f"building {name} failed (see above): mend that, {OR_ELSE}")
    _check_version(unfinished, version)
    unfinished.replace(target)
    _say(f"built {name} in {time.monotonic() - started:.0f} s")


def _check_version(built: Path, version: str) -> None:
    ask = ["version", "--client"] if built.stem == "kubectl" else ["--version"]
    said = subprocess.run([built, *ask], capture_output=True, text=True, check=False).stdout
    if version not in said:
        raise MissingProgram(f"{built} was to be {version} but says {said.strip()!r}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    try:
        for name in PROGRAMS:
            print(f"{name:15} {program(name)}", flush=True)
    except MissingProgram as trouble:
        _say(f"error: {trouble}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
