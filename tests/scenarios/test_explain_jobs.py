"""`headgate explain workload` for jobs that have no Workload, work that has no node, and work behind others."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from headgate.ui.cli import main

QUEUES = """
kind: Scenario
config: CONFIG
clusters:
- nodes: [{name: n-0, capacity: {cpu: "8"}}]
  objects:
  - {apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: any}}
  - apiVersion: kueue.x-k8s.io/v1beta2
    kind: ClusterQueue
    metadata: {name: lab}
    spec:
      namespaceSelector: {}
      resourceGroups:
      - {coveredResources: [cpu], flavors: [{name: any, resources: [{name: cpu, nominalQuota: "4"}]}]}
  - apiVersion: kueue.x-k8s.io/v1beta2
    kind: LocalQueue
    metadata: {name: lab, namespace: default}
    spec: {clusterQueue: lab}
  - {apiVersion: kueue.x-k8s.io/v1beta2, kind: WorkloadPriorityClass, metadata: {name: urgent}, value: 100}
until: 30s
timeline:
"""
SPEC = (
    "{schedulerName: headgate, restartPolicy: Never, "
    "containers: [{name: c, image: i, resources: {requests: {cpu: CPU}}}]EXTRA}"
)


def spec(cpu: str = "1", extra: str = "") -> str:
    return SPEC.replace("CPU", f'"{cpu}"').replace("EXTRA", extra)


def job(
    name: str, labels: str = "kueue.x-k8s.io/queue-name: lab", *, at: int = 1, pods: int = 1, extra: str = ""
) -> str:
    return (
        f"- at: {at}s\n  apply: [{{apiVersion: batch/v1, kind: Job, metadata: {{name: {name}, namespace: default, "
        f"labels: {{{labels}}}}}, spec: {{parallelism: {pods}, completions: {pods}, "
        f"template: {{spec: {spec(extra=extra)}}}}}}}]\n"
    )


def pod(name: str, group: str, total: int) -> str:
    return (
        f"- at: 1s\n  apply: [{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: default, "
        f"labels: {{kueue.x-k8s.io/queue-name: lab, kueue.x-k8s.io/pod-group-name: {group}}}, "
        f'annotations: {{kueue.x-k8s.io/pod-group-total-count: "{total}"}}}}, spec: {spec()}}}]\n'
    )


@pytest.fixture
def told(tmp_path):
    def ask(timeline: str, name: str, *options: str, config: str = "{}"):
        file = tmp_path / "scenario.yaml"
        file.write_text(QUEUES.replace("CONFIG", config) + timeline)
        done = CliRunner().invoke(main, ["explain", "workload", name, "--scenario", str(file), "-o", "json", *options])
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)

    return ask


@pytest.mark.parametrize(
    "timeline, name, kind, verdict, summary",
    [
        pytest.param(
            job("alone", ""),
            "job/alone",
            "Job",
            "NotManaged",
            "is not managed by a queue: it has no label kueue.x-k8s.io/queue-name",
            id="a Job without a queue",
        ),
        pytest.param(
            job("alone", ""),
            "alone",
            "Job",
            "NotManaged",
            "is not managed by a queue: it has no label kueue.x-k8s.io/queue-name",
            id="by its name alone",
        ),
        pytest.param(
            job("classy", "kueue.x-k8s.io/queue-name: lab, kueue.x-k8s.io/priority-class: gone"),
            "job/classy",
            "Job",
            "PriorityClassNotFound",
            "gets no Workload: WorkloadPriorityClass gone does not exist",
            id="no such class",
        ),
        pytest.param(
            pod("p-0", "g", 3),
            "pod/p-0",
            "Pod group",
            "GroupIncomplete",
            "has 1 of its 3 pods: 2 pods missing",
            id="a pod of a group that is not complete",
        ),
        pytest.param(
            pod("p-0", "g", 3) + pod("p-1", "g", 3),
            "g",
            "Pod group",
            "GroupIncomplete",
            "has 2 of its 3 pods: 1 pod missing",
            id="that group by its name",
        ),
        pytest.param(
            pod("p-0", "g", 2) + pod("p-1", "g", 3),
            "g",
            "Pod group",
            "Misconfigured",
            "gets no Workload: pods p-0 and p-1 differ in kueue.x-k8s.io/pod-group-total-count: 2 and '3'",
            id="a group whose pods contradict each other",
        ),
        pytest.param(
            job("pre", "kueue.x-k8s.io/queue-name: lab, kueue.x-k8s.io/prebuilt-workload-name: w"),
            "job/pre",
            "Job",
            "WorkloadNotCreated",
            "waits for Workload w, which its label kueue.x-k8s.io/prebuilt-workload-name names and which does not "
            "exist",
            id="a prebuilt Workload that is not there",
        ),
    ],
)
def test_a_job_without_a_workload_says_why(told, timeline, name, kind, verdict, summary):
    answer = told(timeline, name)
    assert (answer["kind"], answer["verdict"], answer["summary"]) == (kind, verdict, summary)


def test_a_job_of_a_namespace_that_is_left_out_says_so(told):
    selector = "{managedJobsNamespaceSelector: {matchLabels: {team: a}}}"
    answer = told(job("j"), "job/j", config=selector)
    assert answer["verdict"] == "NotManaged"
    assert answer["summary"] == "is not managed: managedJobsNamespaceSelector of the configuration excludes default"


def test_a_job_of_a_kind_that_is_switched_off_says_so(told):
    answer = told(job("j"), "job/j", config="{integrations: {frameworks: [pod]}}")
    assert answer["summary"] == "is not managed: integrations.frameworks of the configuration has no batch/job"


def test_the_pod_of_an_unmanaged_job_leads_to_the_job(told):
    """The name of the pod is that of the only pod the Job creates."""
    answer = told(job("alone", ""), "pod/alone-r59vp")
    assert (answer["kind"], answer["workload"], answer["verdict"]) == ("Job", "default/alone", "NotManaged")
    assert answer["notes"] == ["Pod alone-r59vp is one of its pods"]


@pytest.mark.parametrize(
    "extra, why",
    [
        pytest.param(
            ", nodeSelector: {disk: none}",
            "Unschedulable: 0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector",
            id="a selector",
        ),
        pytest.param(
            ", schedulingGates: [{name: example.com/hold}]", "SchedulingGated: ", id="a gate of somebody else"
        ),
    ],
)
def test_admitted_work_without_a_node_tells_what_the_scheduler_says(told, extra, why):
    answer = told(job("j", pods=2, extra=extra), "job/j")
    assert answer["verdict"] == "WaitingForNodes"
    assert "is admitted by ClusterQueue lab: 2 pods of main on any; 2 of 2 pods have no node: " in answer["summary"]
    assert why in answer["summary"]


def test_admitted_work_that_no_scheduler_takes_up_names_its_scheduler(told):
    timeline = job("j").replace("schedulerName: headgate", "schedulerName: nobody")
    assert (
        "1 of 1 pod has no node: no scheduler has answered yet (schedulerName nobody)"
        in told(timeline, "job/j")["summary"]
    )


def test_work_that_runs_is_admitted_and_no_more(told):
    answer = told(job("j"), "job/j")
    assert (answer["verdict"], answer["summary"]) == (
        "Admitted",
        "is admitted by ClusterQueue lab: 1 pod of main on any",
    )


def test_who_is_ahead_in_the_queue_is_named_with_its_priority(told):
    urgent = "kueue.x-k8s.io/queue-name: lab, kueue.x-k8s.io/priority-class: urgent"
    timeline = job("first", pods=3) + job("big", urgent, at=2, pods=2) + job("late", at=3, pods=2)
    answer = told(timeline, "job/late")
    assert answer["place"] == {"position": 2, "of": 2}
    (ahead,) = answer["ahead"]
    assert ahead["workload"].startswith("default/job-big-") and ahead["priority"] == 100
    assert told(timeline, "job/big")["ahead"] == []


def test_an_object_that_is_not_there_is_still_not_found(tmp_path):
    file = tmp_path / "scenario.yaml"
    file.write_text(QUEUES.replace("CONFIG", "{}") + job("j"))
    for name, said in (("job/k", "Job default/k not found"), ("deployment/d", "Deployment default/d not found")):
        done = CliRunner().invoke(main, ["explain", "workload", name, "--scenario", str(file)])
        assert done.exit_code == 1 and said in done.stderr


DEPLOYMENT = (
    "- at: 1s\n  apply: [{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: default, "
    "labels: {LABELS}}, spec: {replicas: 5, selector: {matchLabels: {app: web}}, template: {metadata: "
    f"{{labels: {{app: web}}}}, spec: {spec().replace('restartPolicy: Never, ', '')}}}}}}}]\n"
)


def test_a_deployment_is_told_by_the_first_pod_that_waits(told):
    answer = told(DEPLOYMENT.replace("LABELS", "kueue.x-k8s.io/queue-name: lab"), "deployment/web")
    assert (answer["kind"], answer["verdict"]) == ("Workload", "WaitingForQuota")
    assert answer["notes"] == [
        "Each pod of Deployment web has a Workload of its own: 4 Admitted, 1 WaitingForQuota",
    ]


def test_a_deployment_without_a_queue_is_not_managed(told):
    answer = told(DEPLOYMENT.replace("LABELS", ""), "deploy/web")
    assert (answer["kind"], answer["verdict"]) == ("Deployment", "NotManaged")


def test_a_deployment_without_pods_says_that_it_has_none(told):
    empty = DEPLOYMENT.replace("LABELS", "kueue.x-k8s.io/queue-name: lab").replace("replicas: 5", "replicas: 0")
    answer = told(empty, "deployment/web")
    assert (answer["verdict"], answer["summary"]) == (
        "WorkloadNotCreated",
        "has no pods yet: each pod of it waits for quota by itself",
    )
