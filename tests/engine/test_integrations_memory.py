"""Jobs, pods, nodes and namespaces come and go for years: nothing is remembered of those that are gone."""

import pytest
from integration_scenes import JOBS, PODS, WORKLOADS, Integrations, cluster_queue, job, member, node, pod

from headgate.model.effects import Create, Delete
from headgate.model.events import Gone, WriteError
from headgate.model.keys import Key, Kind

QUEUES = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
NAMESPACES, NODES = "/api/v1/namespaces", "/api/v1/nodes"


def remembered(part, path="plane", found=None):
    """How much each table of the plane and of its parts holds."""
    found = {} if found is None else found
    for name, value in getattr(part, "__dict__", {}).items():
        if isinstance(value, dict | set):
            found[f"{path}.{name}"] = len(value)
        elif type(value).__module__.startswith(("headgate.engine.integrations", "headgate.engine.in_flight")):
            remembered(value, f"{path}.{name}", found)
        elif type(value).__module__ == "headgate.engine.deadlines" and hasattr(value, "__len__"):
            found[f"{path}.{name}"] = len(value)
    return found


def collect_garbage(scene):
    """No controller deletes the Workloads of owners that are gone here."""
    for name in scene.names(WORKLOADS):
        scene.delete(f"{WORKLOADS}/{name}")
    scene.later(100.0)
    assert scene.names(WORKLOADS) == []


def a_job(scene, number):
    """A Job is admitted, runs, is evicted and deleted."""
    name = f"job-{number}"
    scene.create(JOBS, job(name))
    scene.settle().admit()
    scene.job_status(name, active=1, ready=1)
    scene.evict()
    scene.delete(f"{JOBS}/{name}")


def a_child_job(scene, number):
    """A Job and the Job that owns it."""
    owner = scene.create(JOBS, job(f"owner-{number}"))
    manifest = job(f"child-{number}")
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": f"owner-{number}", "uid": owner["metadata"]["uid"]}
    manifest["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    scene.create(JOBS, manifest)
    scene.settle().delete(f"{JOBS}/owner-{number}")
    for name in scene.names(JOBS):
        scene.delete(f"{JOBS}/{name}")


def a_job_that_never_got_its_workload(scene, number):
    """The server cannot be reached while the Workload is to be created, and then the Job is gone."""
    scene.fault = lambda write: WriteError.UNAVAILABLE if isinstance(write, Create) else None
    scene.create(JOBS, job(f"poor-{number}"))
    scene.settle().later(1.0)
    scene.delete(f"{JOBS}/poor-{number}").later(100.0)
    scene.fault = lambda _: None
    scene.settle()


def a_pod(scene, number):
    """A pod is admitted and runs, then is deleted and ends."""
    name = f"pod-{number}"
    scene.create(PODS, pod(name))
    scene.settle().admit()
    scene.run(name)
    scene.delete(f"{PODS}/{name}").later(100.0)
    scene.end(name)
    if name in scene.names(PODS):
        scene.ask("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
    scene.later(100.0)


def a_group(scene, number):
    names = [f"member-{number}-{each}" for each in range(2)]
    for name in names:
        scene.create(PODS, member(name, group=f"group-{number}"))
    scene.settle()
    for name in names:
        scene.delete(f"{PODS}/{name}")
    scene.later(100.0)


def a_pod_whose_removal_fails(scene, number):
    scene.fault = lambda write: WriteError.UNAVAILABLE if isinstance(write, Delete) else None
    a_pod(scene, number)
    scene.fault = lambda _: None
    scene.later(100.0)


def a_node(scene, number):
    scene.create(NODES, node(f"n-{number}", 4))
    scene.settle().delete(f"{NODES}/n-{number}")


def a_namespace(scene, number):
    scene.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"team-{number}"}})
    made = scene.settle().get(f"{NAMESPACES}/team-{number}")["metadata"]
    scene.plane.absorb(Gone(Key(Kind.NAMESPACE, "", made["name"]), made["uid"]), scene.now)
    scene.settle()


def a_queue(scene, number):
    scene.create(QUEUES, cluster_queue(4, f"cq-{number}"))
    scene.settle().later(10.0)
    scene.delete(f"{QUEUES}/cq-{number}").later(10.0)


LIVES = (a_job, a_child_job, a_job_that_never_got_its_workload, a_pod, a_pod_whose_removal_fails, a_group)


@pytest.mark.parametrize("life", [*LIVES, a_node, a_namespace, a_queue])
def test_nothing_is_remembered_of_what_is_gone(life):
    scene = Integrations()
    scene.settle()
    for number in range(2):
        life(scene, number)
        collect_garbage(scene)
    before = remembered(scene.plane)
    for number in range(2, 6):
        life(scene, number)
        collect_garbage(scene)
    after = remembered(scene.plane)
    assert {name: size for name, size in after.items() if size > before[name]} == {}
