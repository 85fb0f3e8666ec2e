"""`headgate explain workload` on a real kube-apiserver whose objects Kueue wrote; nobody of ours runs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster
from installing import install
from kueue_scenes import KueueScene, owned
from objects import clear, create_with_status
from ours import HEADGATE
from test_queue_webhooks_real import API
from wire import Client

Json = dict[str, Any]
READER = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: NS-explainer}
rules:
- apiGroups: [""]
  resources: [namespaces, limitranges, pods]
  verbs: [get, list]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get]
- apiGroups: [node.k8s.io]
  resources: [runtimeclasses]
  verbs: [list]
- apiGroups: [kueue.x-k8s.io]
  resources: [clusterqueues, localqueues, cohorts, resourceflavors, workloadpriorityclasses, admissionchecks, workloads]
  verbs: [list]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: NS-explainer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: NS-explainer}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: NS-reader}]
"""


def explain(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [HEADGATE, "explain", "workload", "--kubeconfig", kubeconfig, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
async def scene(cluster: Cluster, client: Client, namespace: str) -> AsyncIterator[KueueScene]:
    """What Kueue would have left: its kinds, queues of two teams, jobs, and workloads with their statuses."""
    install(cluster)
    made = KueueScene(namespace)
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    uids = {}
    try:
        for job in made.jobs():
            uids[job["metadata"]["name"]] = (await client.create(jobs, job)).value["metadata"]["uid"]
        for manifest in made.objects():
            await create_with_status(client, owned(manifest, uids))
        yield made
    finally:
        kinds = ("workloads", "localqueues", "clusterqueues", "resourceflavors", "admissionchecks")
        await clear(client, jobs, *(f"{API}/{plural}" for plural in kinds))


@pytest.fixture
def reader(cluster: Cluster, namespace: str) -> Path:
    """A kubeconfig of somebody who may only look."""
    cluster.kubectl("apply", "--filename=-", text=READER.replace("NS", namespace))
    return cluster.wait_until_allowed(
        cluster.kubeconfig_of_user(f"{namespace}-reader", "people"), "list workloads.kueue.x-k8s.io"
    )


def told(kubeconfig: Path, namespace: str, name: str) -> Json:
    done = explain(kubeconfig, name, "--namespace", namespace, "--output", "json")
    assert (done.returncode, done.stderr) == (0, "")
    answer: Json = json.loads(done.stdout)
    return answer


async def test_who_may_only_look_learns_why_a_job_waits(scene: KueueScene, reader: Path) -> None:
    answer = told(reader, scene.ns, "job/wait")
    assert (answer["verdict"], answer["place"]) == ("WaitingForQuota", {"position": 1, "of": 1})
    (short,) = answer["flavors"][0]["shortages"]
    assert short["node"] == {"kind": "Cohort", "name": f"{scene.ns}-all"}
    numbers = [short[name] for name in ("capacity", "used", "free", "requested", "missing")]
    assert numbers == ["10", "8", "2", "4", "2"]
    holders = [(one["workload"].split("/")[1], one["amount"], one["preemptable"]) for one in short["holders"]]
    assert holders == [("job-train", "5", False), ("job-render", "2", False), ("job-checked", "1", False)]
    assert [remedy["text"].split(";")[0].split(":")[0] for remedy in answer["remedies"]] == [
        f"raise nominalQuota of ClusterQueue {scene.ns}-a",
        "run 1 instead of 2 pods of main (parallelism)",
        "raise its priority from 50 to 51",
        f"wait for, or end, {scene.ns}/job-render",
    ]


async def test_what_is_advised_is_enough_on_the_server_and_no_less_is(
    scene: KueueScene, reader: Path, cluster: Cluster, client: Client
) -> None:
    """Quota is raised as advised, and by a thousandth of a core less."""
    change = told(reader, scene.ns, "job/wait")["remedies"][0]["change"]
    assert (change["kind"], change["field"], change["amounts"][0]["to"]) == ("RaiseQuota", "nominalQuota", "6")
    for cpu, verdict in (("5999m", "WaitingForQuota"), ("6", "CouldBeAdmitted")):
        place = "/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota"
        patch = json.dumps([{"op": "replace", "path": place, "value": cpu}])
        cluster.kubectl("patch", "clusterqueue", scene.queue("a"), "--type=json", f"--patch={patch}")
        assert told(reader, scene.ns, "job/wait")["verdict"] == verdict


@pytest.mark.parametrize(
    "name, verdict",
    [
        pytest.param("job-train", "Admitted", id="what is admitted"),
        pytest.param("job-done", "Finished", id="what has finished, though its admission is still there"),
        pytest.param("job-checked", "WaitingForAdmissionChecks", id="what waits for an admission check"),
        pytest.param("job/render", "Admitted", id="the workload of a job"),
    ],
)
async def test_verdicts_of_what_does_not_wait_for_quota(
    scene: KueueScene, reader: Path, name: str, verdict: str
) -> None:
    assert told(reader, scene.ns, name)["verdict"] == verdict


@pytest.fixture
def tenant(cluster: Cluster, namespace: str) -> Path:
    """A kubeconfig of a service account with the rights of `view` in its namespace, and none elsewhere.

    Without a controller manager nobody aggregates, so the parts of `view` are bound one by one.
    """
    cluster.kubectl("create", "serviceaccount", "tenant", f"--namespace={namespace}")
    for part in ("system:aggregate-to-view", "headgate-view"):
        bound = (f"--clusterrole={part}", f"--serviceaccount={namespace}:tenant", f"--namespace={namespace}")
        cluster.kubectl("create", "rolebinding", part.rpartition(":")[2], *bound)
    seen_by_part = ("list pods", "list workloads.kueue.x-k8s.io")
    return cluster.wait_until_allowed(cluster.kubeconfig_of_account(namespace, "tenant"), *seen_by_part)


async def test_a_tenant_with_rights_for_the_namespace_learns_what_the_status_says(
    scene: KueueScene, tenant: Path
) -> None:
    answer = told(tenant, scene.ns, "job/wait")
    assert (answer["verdict"], answer["flavors"]) == ("Pending", [])
    assert answer["summary"].startswith("is pending; its status says: ")
    (note,) = answer["notes"]
    assert note.startswith(
        "Limits and holders of quota are not shown: the rights to list admissionchecks, clusterqueues, "
    )
    assert told(tenant, scene.ns, "job-train")["verdict"] == "Admitted"


async def test_a_tenant_who_is_bound_to_the_role_for_it_gets_the_whole_answer(
    scene: KueueScene, tenant: Path, reader: Path, cluster: Cluster
) -> None:
    bound = ("--clusterrole=headgate-explain", f"--serviceaccount={scene.ns}:tenant")
    cluster.kubectl("create", "clusterrolebinding", f"{scene.ns}-tenant-explains", *bound)
    cluster.wait_until_allowed(tenant, "list clusterqueues.kueue.x-k8s.io")
    assert told(tenant, scene.ns, "job/wait") == told(reader, scene.ns, "job/wait")


async def test_a_tenant_asks_about_a_job_that_no_queue_manages(
    scene: KueueScene, tenant: Path, cluster: Cluster
) -> None:
    cluster.kubectl("create", "job", "alone", "--image=registry.example/none", f"--namespace={scene.ns}")
    answer = told(tenant, scene.ns, "job/alone")
    assert (answer["kind"], answer["verdict"]) == ("Job", "NotManaged")
    assert answer["summary"] == "is not managed by a queue: it has no label kueue.x-k8s.io/queue-name"


async def test_roles_of_tenants_are_part_of_view_edit_and_admin(scene: KueueScene, cluster: Cluster) -> None:
    for name in ("view", "edit", "admin"):
        wanted = json.loads(cluster.kubectl("get", "clusterrole", name, "--output=json"))["aggregationRule"]
        ours = json.loads(cluster.kubectl("get", "clusterrole", f"headgate-{name}", "--output=json"))["metadata"]
        (selector,) = wanted["clusterRoleSelectors"]
        assert selector["matchLabels"].items() <= ours["labels"].items()


async def test_who_may_not_look_is_told_what_is_missing(scene: KueueScene, cluster: Cluster) -> None:
    stranger = cluster.kubeconfig_of_user(f"{scene.ns}-stranger", "people")
    done = explain(stranger, "job/wait", "--namespace", scene.ns)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: cannot read ")
    assert "is forbidden" in done.stderr and "expected the right to list" in done.stderr


async def test_a_name_that_is_not_there_names_what_is(scene: KueueScene, reader: Path) -> None:
    done = explain(reader, "job-wat", "--namespace", scene.ns)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"Workload {scene.ns}/job-wat not found; did you mean job-wait" in done.stderr
