"""Volcano's kinds and the queue-allocation gate on a real cluster, as `headgate install --volcano` leaves it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from children import eventually, free_port
from cluster import OWN_NAMESPACE, Cluster
from installing import install, run_install, wait_until_asked, webhooks_installed
from metering import scrape, values_of
from objects import Manifest, pod, pods_path
from ours import OurProcess
from wire import MERGE_PATCH, Answer, Client

from headgate.api.install_manifests import volcano_definitions
from headgate.model.volcano import QUEUE_GATE

API = "/apis/scheduling.volcano.sh/v1beta1"
QUEUES = f"{API}/queues"
SHORT = "volcano.sh/queue-allocation-gate"
THEIRS = {"name": "example.com/theirs"}
NAMES = [definition["metadata"]["name"] for definition in volcano_definitions()]
SCHEDULERS = ("--scheduler-name", "headgate", "--scheduler-name", "volcano")
ELSEWHERE = {"holderIdentity": "another", "leaseDurationSeconds": 3600, "renewTime": "2036-01-01T00:00:00.000000Z"}


# where Volcano is installed already


def foreign(name: str, version: str) -> Manifest:
    """A definition as somebody else would have left it: it has no label of ours and its own columns."""
    plural, _, group = name.partition(".")
    kind = {"queues": "Queue", "podgroups": "PodGroup"}[plural]
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": free, "status": free}}
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": "Theirs", "type": "string", "jsonPath": ".spec.queue"}],
    }
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    scope = "Cluster" if kind == "Queue" else "Namespaced"
    spec = {"group": group, "names": names, "scope": scope, "versions": [served]}
    definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return {**definition, "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def undefined(cluster: Cluster) -> Iterator[None]:
    """The cluster has none of Volcano's kinds; in the end it has ours."""

    def remove() -> None:
        cluster.kubectl("delete", "crd", "--ignore-not-found", "--wait", "--timeout=60s", *NAMES)
        eventually("they are not served any more", lambda: not cluster.served() & set(NAMES))

    try:
        remove()
        yield
        remove()
    finally:
        install(cluster, "--volcano")


def shown(cluster: Cluster) -> list[Manifest]:
    """The specs of the definitions that are there."""
    return [json.loads(cluster.kubectl("get", "crd", name, "--output=json"))["spec"] for name in NAMES]


@pytest.mark.usefixtures("undefined")
async def test_kinds_that_volcano_has_installed_are_left_to_it_and_work(cluster: Cluster, client: Client) -> None:
    cluster.define(*(foreign(name, "v1beta1") for name in NAMES))
    before = shown(cluster)

    done = run_install(cluster.administrator, "--volcano")

    assert done.returncode == 0, done.stderr
    for name in NAMES:
        left = f"CustomResourceDefinition {name}: left as it is, because somebody else installed it"
        assert left in done.stdout.splitlines()
    assert shown(cluster) == before
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "of-theirs"}}
    await client.create(QUEUES, {**kind, "spec": {"capability": {"cpu": "1"}}})


@pytest.mark.usefixtures("undefined")
def test_a_volcano_that_does_not_serve_our_version_is_told_and_left_alone(cluster: Cluster) -> None:
    cluster.kubectl("apply", "--filename=-", text=json.dumps(foreign("queues.scheduling.volcano.sh", "v1alpha1")))
    done = run_install(cluster.administrator, "--volcano")
    assert done.returncode == 1
    told = "queues.scheduling.volcano.sh: somebody else installed it, and it serves v1alpha1, not v1beta1"
    assert told in done.stderr


@pytest.mark.usefixtures("undefined")
def test_without_the_flag_volcanos_kinds_are_not_installed(cluster: Cluster) -> None:
    install(cluster)
    assert not {kind for kind in cluster.served() if kind.endswith("scheduling.volcano.sh")}


# our process is asked


class Webhooks:
    """Our process, which answers an API server and decides nothing: somebody else holds the lease."""

    def __init__(self, cluster: Cluster, kubeconfig: Path, port: int) -> None:
        self._cluster, self._kubeconfig, self.port = cluster, kubeconfig, port

    def start(self) -> None:
        """Returns when the API server is answered, and trusts the answer."""
        flags = (*SCHEDULERS, "--no-queues", "--lease-namespace", OWN_NAMESPACE)
        listen = ("--webhook-listen", f"127.0.0.1:{self.port}")
        self.process = OurProcess(self._kubeconfig, self._cluster.folder / "volcano-webhooks.log", *flags, *listen)
        eventually("our process is up", lambda: self.process.answers("/healthz"))
        wait_until_asked(self._cluster, self.process)

    def stop(self) -> None:
        self.process.stop()

    def asked(self) -> float:
        """How often our process was asked about the gate."""
        name = "controller_runtime_webhook_requests_total"
        return sum(values_of(scrape(self.process), name, webhook="/default-queue-gate").values())


@pytest.fixture(scope="module")
def webhooks(cluster: Cluster, own_account: Path) -> Iterator[Webhooks]:
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": ELSEWHERE}
    held = {**lease, "metadata": {"name": "headgate", "namespace": OWN_NAMESPACE}}
    serving = Webhooks(cluster, own_account, free_port())
    try:
        cluster.kubectl("apply", "--filename=-", text=json.dumps(held))
        with webhooks_installed(cluster, serving.port, "--volcano", "--no-queues", *SCHEDULERS):
            serving.start()
            yield serving
            serving.stop()
    finally:
        cluster.kubectl("delete", "lease", "headgate", f"--namespace={OWN_NAMESPACE}", "--ignore-not-found")
        cluster.kubectl("delete", NAMES[0], "--all")


def asking(scheduler: str = "headgate", annotations: dict[str, str] | None = None, **spec: Any) -> Manifest:
    made = pod("it", scheduler=scheduler, **spec)
    made["metadata"]["annotations"] = {QUEUE_GATE: "true"} if annotations is None else annotations
    return made


@pytest.mark.parametrize(
    "manifest, gates, asked",
    [
        pytest.param(asking(), [QUEUE_GATE], 1, id="a pod that asks for it"),
        pytest.param(asking(annotations={SHORT: "true"}), [QUEUE_GATE], 1, id="in the other spelling"),
        pytest.param(
            asking(annotations={QUEUE_GATE: "false", SHORT: "true"}), [QUEUE_GATE], 1, id="in one spelling of two"
        ),
        pytest.param(asking("volcano"), [QUEUE_GATE], 1, id="of the other scheduler that is served"),
        pytest.param(
            asking(schedulingGates=[THEIRS]), ["example.com/theirs", QUEUE_GATE], 1, id="gates of others stay in place"
        ),
        pytest.param(
            asking(schedulingGates=[{"name": QUEUE_GATE}, THEIRS]),
            [QUEUE_GATE, "example.com/theirs"],
            1,
            id="it is there already",
        ),
        pytest.param(asking(schedulingGates=[{"name": SHORT}]), [SHORT], 1, id="its other name is there already"),
        pytest.param(asking(nodeName="n"), [], 1, id="a pod that has a node"),
        pytest.param(pod("it"), [], 0, id="without annotations"),
        pytest.param(asking(annotations={"example.com/a": "b"}), [], 0, id="with other annotations"),
        pytest.param(asking(annotations={QUEUE_GATE: "false"}), [], 0, id="that says false"),
        pytest.param(asking(annotations={QUEUE_GATE: "True"}), [], 0, id="that does not say true as it is written"),
        pytest.param(asking("default-scheduler"), [], 0, id="of kube-scheduler"),
        pytest.param(asking("theirs"), [], 0, id="of somebody else's scheduler"),
        pytest.param(
            asking("theirs", schedulingGates=[THEIRS]), ["example.com/theirs"], 0, id="of somebody else, gated"
        ),
    ],
)
async def test_who_gets_the_gate_and_about_whom_we_are_asked(
    client: Client, namespace: str, webhooks: Webhooks, manifest: Manifest, gates: list[str], asked: int
) -> None:
    before = webhooks.asked()
    stored = (await client.create(pods_path(namespace), manifest)).value
    assert [gate["name"] for gate in stored["spec"].get("schedulingGates", ())] == gates
    assert webhooks.asked() - before == asked


async def test_who_is_not_gated_at_creation_is_never_gated(client: Client, namespace: str, webhooks: Webhooks) -> None:
    await client.create(pods_path(namespace), pod("it"))
    before = webhooks.asked()
    await client.patch(f"{pods_path(namespace)}/it", {"metadata": {"annotations": {QUEUE_GATE: "true"}}})
    stored = await client.get(f"{pods_path(namespace)}/it")
    assert "schedulingGates" not in stored["spec"]
    assert webhooks.asked() == before


@pytest.fixture
def outage(webhooks: Webhooks) -> Iterator[None]:
    webhooks.stop()
    yield
    webhooks.start()


@pytest.mark.usefixtures("outage")
async def test_while_our_process_is_down_only_pods_that_ask_for_the_gate_are_refused(
    client: Client, namespace: str
) -> None:
    async def create(name: str, manifest: Manifest, where: str = namespace) -> Answer:
        made = {**manifest, "metadata": {**manifest["metadata"], "name": name}}
        return await client.request("POST", pods_path(where), made)

    for name, manifest in {"long": asking(), "short": asking(annotations={SHORT: "true"})}.items():
        refused = await create(name, manifest)
        hook = "default.pods-gated-by-queue.headgate.dev"
        assert (refused.code, hook in refused.value["message"]) == (500, True)
    others = {
        "plain": pod("it"),
        "no": asking(annotations={QUEUE_GATE: "false"}),
        "default": asking("default-scheduler"),
        "theirs": asking("theirs", schedulingGates=[THEIRS]),
    }
    assert {name: (await create(name, manifest)).code for name, manifest in others.items()} == dict.fromkeys(
        others, 201
    )
    assert (await create("it", asking(), "kube-system")).code == 201
    await client.delete(f"{pods_path('kube-system')}/it?gracePeriodSeconds=0")


# queues


def queue(name: str, **spec: Any) -> Manifest:
    return {"apiVersion": API.removeprefix("/apis/"), "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def cpu(amount: str) -> Manifest:
    return {"cpu": amount}


@pytest.fixture(scope="module")
def tree(cluster: Cluster, webhooks: Webhooks) -> None:
    """Queues `org` over `team`, one that is closed, one that has pods on nodes, and those that are always there."""
    org = {"capability": cpu("10"), "guarantee": {"resource": cpu("4")}, "deserved": cpu("6")}
    team = {"parent": "org", "capability": cpu("8"), "guarantee": {"resource": cpu("3")}, "deserved": cpu("3")}
    made = [queue("root"), queue("org", **org), queue("team", **team), queue("old"), queue("busy"), queue("default")]
    for each in made:
        cluster.kubectl("create", "--filename=-", text=json.dumps(each))
    for name, status in {"old": {"state": "Closed"}, "busy": {"allocated": cpu("1")}}.items():
        change = json.dumps({"status": status})
        cluster.kubectl("patch", NAMES[0], name, "--subresource=status", "--type=merge", f"--patch={change}")


def denied(hook: str, why: str) -> tuple[int, str]:
    return 403, f'admission webhook "{hook}" denied the request: {why}'


def of_queue(why: str) -> tuple[int, str]:
    return denied("validate.queues.volcano.headgate.dev", why)


def answer_of(answer: Answer) -> tuple[int, str]:
    return answer.code, answer.value["message"] if answer.code >= 400 else ""


@pytest.mark.usefixtures("tree")
async def test_a_queue_is_completed(client: Client) -> None:
    made = (await client.create(f"{QUEUES}?dryRun=All", queue("new", capability=cpu("4")))).value["spec"]
    expected = {"parent": "root", "reclaimable": True, "weight": 1, "dequeueStrategy": "traverse"}
    assert made == {"capability": cpu("4"), **expected}


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize(
    "spec, expected",
    [
        pytest.param({"parent": "org", "capability": cpu("10")}, (201, ""), id="as much as its parent"),
        pytest.param(
            {"parent": "new"},
            of_queue('spec.parent: Invalid value: "new": a queue can not be below itself'),
            id="below itself",
        ),
        pytest.param(
            {"parent": "nowhere"}, of_queue('spec.parent: Not found: "nowhere"'), id="below one that is not there"
        ),
        pytest.param(
            {"parent": "busy"},
            of_queue('spec.parent: Invalid value: "busy": the queue has pods of its own'),
            id="below one with pods",
        ),
        pytest.param(
            {"parent": "team", "capability": cpu("9")},
            of_queue('spec.capability[cpu]: Invalid value: "9": must not exceed the capability of queue team, 8'),
            id="more than the nearest limit above",
        ),
        pytest.param(
            {"parent": "org", "guarantee": {"resource": cpu("2")}},
            of_queue(
                'spec.guarantee.resource[cpu]: Invalid value: "5": the queues below org have this much together, more '
                "than the guarantee of queue org, 4"
            ),
            id="guarantees beside it",
        ),
        pytest.param(
            {"parent": "org", "deserved": cpu("4")},
            of_queue(
                'spec.deserved[cpu]: Invalid value: "7": the queues below org have this much together, more than the '
                "deserved of queue org, 6"
            ),
            id="what queues beside it deserve",
        ),
        pytest.param(
            {"capability": cpu("1"), "deserved": cpu("2")},
            of_queue('spec.deserved[cpu]: Invalid value: "2": must not exceed spec.capability, 1'),
            id="deserves more than it may use",
        ),
        pytest.param(
            {"deserved": cpu("1"), "guarantee": {"resource": cpu("2")}},
            of_queue('spec.guarantee.resource[cpu]: Invalid value: "2": must not exceed spec.deserved, 1'),
            id="is guaranteed more than it deserves",
        ),
        pytest.param(
            {"capability": cpu("-1")},
            of_queue('spec.capability[cpu]: Invalid value: "-1": must be greater than or equal to 0'),
            id="less than nothing",
        ),
        pytest.param(
            {"affinity": {"nodeGroupAffinity": {}}},
            of_queue("spec.affinity: Forbidden: is not served: its pods would be placed otherwise than it says"),
            id="what is not served",
        ),
        pytest.param(
            {"capability": cpu("much")},
            (
                422,
                'Queue.scheduling.volcano.sh "new" is invalid: spec.capability.cpu: Invalid value: "much": '
                "spec.capability.cpu in body should match "
                r"'^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|"
                r"(\.[0-9]+))))?$'",
            ),
            id="no amount",
        ),
        pytest.param(
            {"weight": 0},
            (
                422,
                'Queue.scheduling.volcano.sh "new" is invalid: spec.weight: Invalid value: 0: spec.weight in body '
                "should be greater than or equal to 1",
            ),
            id="no weight",
        ),
    ],
)
async def test_a_new_queue(client: Client, spec: Manifest, expected: tuple[int, str]) -> None:
    assert answer_of(await client.request("POST", f"{QUEUES}?dryRun=All", queue("new", **spec))) == expected


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize(
    "name, spec, expected",
    [
        pytest.param("team", {"capability": cpu("9")}, (200, ""), id="a limit"),
        pytest.param(
            "org",
            {"parent": "team", "guarantee": None, "deserved": None},
            of_queue('spec.parent: Invalid value: "team": the queue team is below this one, or below itself'),
            id="to below its own child",
        ),
        pytest.param(
            "org",
            {"guarantee": {"resource": cpu("2")}},
            of_queue(
                'spec.guarantee.resource[cpu]: Invalid value: "3": the queues below org have this much together, more '
                "than the guarantee that this queue says, 2"
            ),
            id="less than its children are guaranteed",
        ),
        pytest.param(
            "root",
            {"capability": cpu("5")},
            of_queue("spec: Forbidden: the root queue can not be changed"),
            id="the root",
        ),
    ],
)
async def test_a_change_of_a_queue(client: Client, name: str, spec: Manifest, expected: tuple[int, str]) -> None:
    answer = await client.request("PATCH", f"{QUEUES}/{name}?dryRun=All", {"spec": spec}, MERGE_PATCH)
    assert answer_of(answer) == expected


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize(
    "name, expected",
    [
        pytest.param("old", (200, ""), id="an idle queue"),
        pytest.param("root", of_queue("the queue root can not be deleted"), id="the root"),
        pytest.param("default", of_queue("the queue default can not be deleted"), id="the default queue"),
        pytest.param("org", of_queue("the queue org has queues below it: team"), id="a parent"),
        pytest.param(
            "busy", of_queue("the queue busy has pods on nodes; wait until they are gone"), id="one that is used"
        ),
    ],
)
async def test_deletion_of_a_queue(client: Client, name: str, expected: tuple[int, str]) -> None:
    assert answer_of(await client.request("DELETE", f"{QUEUES}/{name}?dryRun=All")) == expected


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize(
    "state, code",
    [
        *(pytest.param(state, 200, id=state) for state in ("Open", "Closing", "Closed", "Unknown")),
        pytest.param("Shut", 422, id="no state of a queue"),
    ],
)
async def test_states_of_a_queue(client: Client, state: str, code: int) -> None:
    change = {"status": {"state": state}}
    answer = await client.request("PATCH", f"{QUEUES}/team/status?dryRun=All", change, MERGE_PATCH)
    assert answer.code == code


# PodGroups


def group(**spec: Any) -> Manifest:
    return {**queue("train", minMember=2, **spec), "kind": "PodGroup"}


def of_group(why: str) -> tuple[int, str]:
    return denied("validate.podgroups.volcano.headgate.dev", why)


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize(
    "spec, expected",
    [
        pytest.param({"queue": "team"}, (201, ""), id="a queue that is open"),
        pytest.param({}, (201, ""), id="the default queue"),
        pytest.param({"queue": "nowhere"}, of_group('spec.queue: Not found: "nowhere"'), id="no such queue"),
        pytest.param(
            {"queue": "old"},
            of_group('spec.queue: Invalid value: "old": the queue is Closed, expected one that is Open'),
            id="a queue that is closed",
        ),
        pytest.param(
            {"queue": "org"},
            of_group('spec.queue: Invalid value: "org": expected a queue without queues below it, this one has team'),
            id="a queue with queues below it",
        ),
        pytest.param(
            {"queue": "team", "subGroupPolicy": [{"name": "a"}]},
            of_group("spec.subGroupPolicy: Forbidden: is not served: its pods would be placed otherwise than it says"),
            id="groups within the group",
        ),
    ],
)
async def test_a_new_pod_group(client: Client, namespace: str, spec: Manifest, expected: tuple[int, str]) -> None:
    path = f"{API}/namespaces/{namespace}/podgroups?dryRun=All"
    assert answer_of(await client.request("POST", path, group(**spec))) == expected


@pytest.mark.usefixtures("tree")
async def test_a_pod_group_is_in_the_default_queue_and_can_be_changed_after_its_queue_was_closed(
    client: Client, namespace: str
) -> None:
    path = f"{API}/namespaces/{namespace}/podgroups"
    stored = (await client.create(path, group())).value
    assert stored["spec"]["queue"] == "default"
    await client.patch(f"{QUEUES}/default/status", {"status": {"state": "Closed"}})
    await client.patch(f"{path}/train", {"spec": {"minMember": 3}})
    moved = await client.request("PATCH", f"{path}/train", {"spec": {"queue": "old"}}, MERGE_PATCH)
    why = of_group('spec.queue: Invalid value: "old": the queue is Closed, expected one that is Open')
    assert answer_of(moved) == why
    await client.delete(f"{path}/train")
