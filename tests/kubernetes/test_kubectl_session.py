"""One kubectl session on the small Kubernetes and on a real one: same exit codes and lines, but for ages and times."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path

import kubernetes_types
import pytest
from assets import program
from cluster import Cluster
from ours import our_apiserver

SPACE = "kubectl-session"
POD = """
apiVersion: v1
kind: Pod
metadata: {name: a, labels: {app: web}}
spec:
  schedulerName: nobody
  containers: [{name: c, image: busybox, resources: {requests: {cpu: 100m}}}]
"""
QUEUED = POD.replace("name: a", "name: gated").replace(
    "schedulerName: nobody", "schedulingGates: [{name: example.org/g}]"
)
WRONG = POD.replace("name: a", "name: wrong").replace("image: busybox", "images: busybox")
CLASS = "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: session-high}, value: 7}"
MAP = "{apiVersion: v1, kind: ConfigMap, metadata: {name: m}, data: {k: v}}"
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  selector: {matchLabels: {app: d}}
  template: {metadata: {labels: {app: d}}, spec: {containers: [{name: c, image: busybox}]}}
"""
NODE = "{apiVersion: v1, kind: Node, metadata: {name: session-node}}"
EDITED = MAP.replace("name: m", "name: e")
SESSION: tuple[tuple[str, str], ...] = (
    ("create namespace kubectl-session", ""),
    ("get namespace kubectl-session", ""),
    ("create -f -", POD),
    ("create -f -", POD),
    ("create -f -", QUEUED),
    ("create -f -", WRONG),
    ("apply -f -", MAP),
    ("apply -f -", MAP),
    ("apply -f -", MAP.replace("k: v", "k: w")),
    ("get configmap m -o jsonpath={.data.k}", ""),
    ("create configmap n --from-literal=a=b", ""),
    ("create secret generic s --from-literal=a=b", ""),
    ("create serviceaccount robot", ""),
    ("create job j --image=busybox", ""),
    ("create priorityclass session-low --value=3", ""),
    ("create quota q --hard=pods=100", ""),
    ("create -f -", CLASS),
    ("get pods", ""),
    ("get pods -o wide", ""),
    ("get pods --show-labels", ""),
    ("get pods -l app=web -o name", ""),
    ("get pods --field-selector=status.phase=Running", ""),
    ("get pod,cm,secret", ""),
    ("get jobs", ""),
    ("get priorityclass session-high session-low", ""),
    ("get pod nope", ""),
    ("get nonsense", ""),
    ("describe pod a", ""),
    ("describe pod gated", ""),
    ("describe configmap m", ""),
    ("describe secret s", ""),
    ("describe job j", ""),
    ("describe quota q", ""),
    ("describe priorityclass session-low", ""),
    ("describe pod nope", ""),
    ("get all", ""),
    ("get pod a -o json", ""),
    ("get job j -o yaml", ""),
    ("api-resources --api-group=batch", ""),
    ("api-resources --api-group=scheduling.k8s.io -o wide", ""),
    ("explain pod.spec.nonsense", ""),
    ("explain nonsense", ""),
    ("label pod a tier=front", ""),
    ("label pod a tier=back", ""),
    ("label pod a tier=back --overwrite", ""),
    ("annotate pod a note=one", ""),
    ('patch pod a -p {"metadata":{"labels":{"x":"1"}}}', ""),
    ('patch pod a --type=merge -p {"metadata":{"labels":{"y":"2"}}}', ""),
    ('patch pod a --type=json -p [{"op":"add","path":"/metadata/labels/z","value":"3"}]', ""),
    ('patch pod a --type=json -p [{"op":"test","path":"/metadata/labels/z","value":"4"}]', ""),
    ('patch pod a --type=merge -p {"spec":{"nodeName":"n"}}', ""),
    ("get pod a -o jsonpath={.metadata.labels}", ""),
    ("replace -f -", MAP.replace("k: v", "k: x")),
    ("wait --for=jsonpath={.data.k}=x configmap/m --timeout=60s", ""),
    ("wait --for=condition=Ready pod/a --timeout=1s", ""),
    ("apply --server-side -f -", EDITED),
    ("apply --server-side -f -", EDITED),
    ("apply --server-side --field-manager=other -f -", EDITED.replace("k: v", "k: w")),
    ("apply --server-side --field-manager=other --force-conflicts -f -", EDITED.replace("k: v", "k: w")),
    ("apply --server-side -f -", EDITED.replace("k: v", "j: v")),
    ("apply --server-side --dry-run=server -f -", EDITED.replace("k: v", "i: v")),
    ("apply --server-side -f -", EDITED.replace("data", "surprise")),
    ("get configmap e -o jsonpath={.data}", ""),
    ('get configmap e -o jsonpath={.metadata.managedFields[?(@.manager=="other")].operation}', ""),
    ('get configmap e -o jsonpath={.metadata.managedFields[?(@.manager=="kubectl")].operation}', ""),
    ("apply --server-side -f -", DEPLOYMENT),
    ("get deployment d", ""),
    ("describe deployment d", ""),
    ("scale deployment d --replicas=3", ""),
    ("scale deployment d --replicas=4 --current-replicas=2", ""),
    ("scale deployment nope --replicas=4", ""),
    ("get deployment d -o jsonpath={.spec.replicas}", ""),
    ("apply --server-side -f -", DEPLOYMENT.replace("spec:\n", "spec:\n  replicas: 5\n", 1)),
    ("set image deployment/d c=busybox:2", ""),
    ("rollout pause deployment/d", ""),
    ("get deployment d -o jsonpath={.spec.paused}", ""),
    ("create token robot --duration=1h", ""),
    ("create token robot --duration=1m", ""),
    ("create token nobody", ""),
    ("diff -f -", EDITED.replace("k: v", "j: x")),
    ("diff --server-side -f -", EDITED.replace("k: v", "j: v")),
    ("edit configmap e", "s/j: v/j: edited/"),
    ("edit configmap e", "s/nothing/else/"),
    ("get configmap e -o jsonpath={.data}", ""),
    ("replace -f -", EDITED.replace("name: e", "name: none")),
    ("replace --force -f -", EDITED),
    ('patch deployment d --subresource=scale --type=merge -p {"spec":{"replicas":2}}', ""),
    ("wait --for=delete configmap/none --timeout=60s", ""),
    ("wait --for=jsonpath={.spec.replicas}=2 deployment/d --timeout=60s", ""),
    ("auth can-i create pods", ""),
    ("auth can-i delete nodes --all-namespaces", ""),
    ("create -f -", NODE),
    ("cordon session-node", ""),
    ("uncordon session-node", ""),
    ("taint node session-node a=b:NoSchedule", ""),
    ("drain session-node --dry-run=client", ""),
    ("drain session-node --dry-run=server", ""),
    ("get node session-node", ""),
    ("describe node session-node", ""),
    ("delete node session-node", ""),
    ("get configmap -w --request-timeout=5s", ""),
    ("get configmap e -o yaml --watch-only --request-timeout=5s", ""),
    ("logs nope", ""),
    ("delete deployment d --cascade=background", ""),
    ("delete configmap n", ""),
    ("delete pod a gated --wait=true --timeout=60s", ""),
    ("delete priorityclass session-high session-low", ""),
    ("delete namespace kubectl-session --wait=false", ""),
)
AGE = re.compile(r"\b\d+(?:s|m\d*s?|h\d*m?|d\d*h?|y\d*d?)(?=\s|$)")
CHANGING = (
    re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]+"),
    re.compile(r"(?<=/)(LIVE-|MERGED-|kubectl_replace_)\d+"),
    re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}"),
    re.compile(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}"),
    re.compile(r'(?<=Version: "|ersion": ")\d+'),
    AGE,
    re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"),
)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a `headgate apiserver`."""
    with our_apiserver(tmp_path_factory.mktemp("ours")) as file:
        yield file


class Kubectl:
    """One version of it, in a namespace of its own."""

    def __init__(self, found: Path, space: str) -> None:
        self._found, self._space = found, space

    def run(self, kubeconfig: Path, command: str, text: str) -> tuple[int, str, str]:
        command = command.replace(SPACE, self._space)
        space = [] if "namespace" in command or "priorityclass" in command else [f"--namespace={self._space}"]
        asked = [self._found, f"--kubeconfig={kubeconfig}", *command.split(" "), *space]
        editor = {"KUBE_EDITOR": f"sed --in-place '{text}'"} if command.startswith("edit ") else {}
        done = subprocess.run(
            asked, input=text, capture_output=True, text=True, check=False, env={**os.environ, **editor}
        )
        return done.returncode, shown(done.stdout), shown(done.stderr)


def shown(text: str) -> str:
    """The lines without what differs from run to run; columns are as wide as what stands in them.

    Left out is also the difference of Go's own structs that a real server adds to a forbidden update.
    """
    text = re.sub("\n@@ .*", "\n", text, flags=re.DOTALL)
    for each in CHANGING:
        text = each.sub("#", text)
    return re.sub(" {2,}", "  ", text)


def differences(kubectl: Kubectl, real: Path, ours: Path) -> str:
    """The commands of the session after which the two servers do not stand alike, one after the other."""
    differing, files = [], (real, ours)
    with ThreadPoolExecutor(len(files)) as pool:
        for command, text in SESSION:
            there, here = pool.map(kubectl.run, files, repeat(command), repeat(text))
            if there != here:
                differing.append(f"kubectl {command}\n  real: {there}\n  ours: {here}")
    return "\n".join(differing)


@pytest.mark.timeout(900)  # two hundred runs of kubectl
def test_the_same_session_reads_the_same(cluster: Cluster, ours: Path):
    found = differences(Kubectl(program("kubectl"), f"{SPACE}-newest"), cluster.administrator, ours)
    assert not found, found


def test_logs_are_refused_with_the_reason(ours: Path):
    kubectl = Kubectl(program("kubectl"), f"{SPACE}-logs")
    for command, text in ((f"create namespace {SPACE}", ""), ("create -f -", POD.replace("name: a", "name: l"))):
        kubectl.run(ours, command, text)
    refused = "log of pods is not served: no kubelet runs containers behind this API server"
    assert kubectl.run(ours, "logs l", "") == (1, "", f"Error from server (NotImplemented): {refused}\n")


def test_the_table_of_types_is_that_of_the_pinned_kubernetes():
    assert kubernetes_types.FILE.read_text() == kubernetes_types.rendered()
