"""Exchanges about jobs, nodes, priority classes, disruption budgets, namespaces, config maps and secrets."""

from __future__ import annotations

from typing import Any

from exchanges import (
    BUDGETS,
    CLASSES,
    JOBS,
    NODES,
    PODS,
    Step,
    container,
    create,
    delete,
    get,
    job,
    merge,
    node,
    pod,
    priority_class,
    with_metadata,
)

THE_JOB, THE_NODE, THE_CLASS = f"{JOBS}/it", f"{NODES}/NS-node", f"{CLASSES}/NS-high"
NAMESPACES = "/api/v1/namespaces"
HIGH = create(priority_class("NS-high", 1000), CLASSES)


def budget(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "it"}, "spec": spec}


def tainted(**taint: Any) -> Step:
    return create(node(taints=[taint]), NODES)


MAPS, SECRETS = "/api/v1/namespaces/NS/configmaps", "/api/v1/namespaces/NS/secrets"
KEPT = {"data": {"a": "YQ=="}, "immutable": True}


def config_map(**fields: Any) -> Step:
    return create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "it"}, **fields}, MAPS)


def secret(**fields: Any) -> Step:
    return create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "it"}, **fields}, SECRETS)


EXCHANGES: dict[str, list[Step]] = {
    "a config map with a key that is no file name": [config_map(data={"a key": ""}), config_map(data={"..": ""})],
    "a config map whose key starts like a parent folder": [config_map(data={"..a": ""}), config_map(data={".": ""})],
    "a config map with an empty key": [config_map(data={"": ""}), config_map(data={"a" * 254: ""})],
    "a config map with a key twice": [config_map(data={"a": ""}, binaryData={"a": "YQ=="}), config_map()],
    "a key of a config map that is added": [
        config_map(data={"a": ""}),
        merge({"data": {"b c": ""}}, f"{MAPS}/it"),
        merge({"binaryData": {"a": "YQ=="}}, f"{MAPS}/it"),
    ],
    "an immutable config map": [
        config_map(data={"a": ""}, immutable=True),
        merge({"data": {"b": ""}}, f"{MAPS}/it"),
        merge({"immutable": None}, f"{MAPS}/it"),
    ],
    "a secret with a key that is no file name": [secret(data={"a key": ""}), secret(stringData={"a/b": "c"})],
    "a secret of another type than before": [secret(data={"a": "YQ=="}), merge({"type": "other"}, f"{SECRETS}/it")],
    "an immutable secret": [
        secret(**KEPT),
        merge({"data": {"b": "YQ=="}}, f"{SECRETS}/it"),
        merge({"immutable": False}, f"{SECRETS}/it"),
    ],
    **{
        f"a secret of type {of_type} without its data": [secret(type=f"kubernetes.io/{of_type}", data={"a": "YQ=="})]
        for of_type in ("dockercfg", "dockerconfigjson", "basic-auth", "ssh-auth", "tls", "service-account-token")
    },
    "a secret of type basic-auth with a password": [
        secret(type="kubernetes.io/basic-auth", stringData={"password": "p"})
    ],
    "unknown fields of a job, strictly": [
        create(job(parallelsim=1), f"{JOBS}?fieldValidation=Strict"),
        create(job(), JOBS),
        merge({"spec": {"parallelsim": 1}}, f"{THE_JOB}?fieldValidation=Strict"),
    ],
    "unknown fields of a pod, strictly": [
        create(pod(containers=[container(ressources={})], nodeNam="a"), f"{PODS}?fieldValidation=Strict"),
        create(with_metadata(pod(), label={}), f"{PODS}?fieldValidation=Strict"),
        create(pod(), f"{PODS}?fieldValidation=Strict"),
    ],
    "a plain job": [create(job(), JOBS), get(THE_JOB)],
    "a job that always restarts": [create(job(template={"spec": {"containers": [container()]}}), JOBS)],
    "a job of an old client": [
        create(
            job(
                template={
                    "metadata": {"creationTimestamp": None, "labels": {"app": "it"}},
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "resources": {}}]},
                }
            ),
            JOBS,
        )
    ],
    "a job whose labels are removed": [
        create(job(template=with_metadata(job()["spec"]["template"] | {"metadata": {}}, labels={"app": "it"})), JOBS),
        merge({"metadata": {"labels": None}}, THE_JOB),
        merge({"metadata": {"labels": {"mine": "1"}}, "spec": {"suspend": True}}, THE_JOB),
        merge({"metadata": {"labels": None}, "spec": {"suspend": False}}, THE_JOB),
    ],
    "a job with a negative parallelism": [create(job(parallelism=-1), JOBS)],
    "a job with negative completions": [create(job(completions=-1), JOBS)],
    "a job with a negative backoff limit": [create(job(backoffLimit=-1), JOBS)],
    "a job with a negative deadline": [create(job(activeDeadlineSeconds=-1), JOBS)],
    "a job with a selector of its own": [create(job(selector={"matchLabels": {"a": "b"}}), JOBS)],
    "an indexed job without completions": [create(job(completionMode="Indexed"), JOBS)],
    "a job with an unknown completion mode": [create(job(completionMode="Some"), JOBS)],
    "a job with a bad name": [create(job("It"), JOBS)],
    "a job with a name too long for its pods": [create(job("a" * 64), JOBS)],
    "a job with a bad template": [create(job(template={"spec": {"restartPolicy": "Never"}}), JOBS)],
    "a job with a gate in its template": [
        create(
            job(
                template={
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [container()],
                        "schedulingGates": [{"name": "a.b/c"}],
                    }
                }
            ),
            JOBS,
        )
    ],
    "a job managed by another": [create(job(managedBy="example.com/other"), JOBS)],
    "a job managed by a bad name": [create(job(managedBy="other"), JOBS)],
    "a job is suspended and resumed": [
        create(job(), JOBS),
        merge({"spec": {"suspend": True}}, THE_JOB),
        merge({"spec": {"suspend": False}}, THE_JOB),
    ],
    "a job's parallelism is changed": [create(job(), JOBS), merge({"spec": {"parallelism": 3}}, THE_JOB)],
    "a job's completions are changed": [create(job(completions=2), JOBS), merge({"spec": {"completions": 3}}, THE_JOB)],
    "a running job's template is changed": [
        create(job(), JOBS),
        merge({"spec": {"template": {"spec": {"nodeSelector": {"zone": "a"}}}}}, THE_JOB),
    ],
    "a suspended job's node selector is changed": [
        create(job(suspend=True), JOBS),
        merge({"spec": {"template": {"spec": {"nodeSelector": {"zone": "a"}}}}}, THE_JOB),
    ],
    "a suspended job's image is changed": [
        create(job(suspend=True), JOBS),
        merge({"spec": {"template": {"spec": {"containers": [container(image="new")]}}}}, THE_JOB),
    ],
    "a job's status is written": [create(job(), JOBS), merge({"status": {"active": 1}}, f"{THE_JOB}/status")],
    "a job is deleted": [create(job(), JOBS), delete(THE_JOB, propagationPolicy="Background"), get(THE_JOB)],
    "a plain node": [create(node(), NODES), get(THE_NODE)],
    "a node with a bad name": [create(node("Not_Good"), NODES)],
    "a node that exists already": [create(node(), NODES), create(node(), NODES)],
    "a node with a taint": [tainted(key="a", effect="NoSchedule")],
    "a taint without an effect": [tainted(key="a")],
    "a taint with an unknown effect": [tainted(key="a", effect="Never")],
    "a taint with a bad key": [tainted(key="not good", effect="NoSchedule")],
    "a taint twice": [create(node(taints=[{"key": "a", "effect": "NoSchedule"}] * 2), NODES)],
    "a node is cordoned": [create(node(), NODES), merge({"spec": {"unschedulable": True}}, THE_NODE)],
    "a node's capacity is written": [
        create(node(), NODES),
        merge({"status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}}}, f"{THE_NODE}/status"),
    ],
    "a node's capacity is negative": [
        create(node(), NODES),
        merge({"status": {"capacity": {"cpu": "-4"}}}, f"{THE_NODE}/status"),
    ],
    "a node is deleted": [create(node(), NODES), delete(THE_NODE), get(THE_NODE)],
    "a priority class": [HIGH, get(THE_CLASS)],
    "a priority class that exists already": [HIGH, HIGH],
    "a priority class without a value": [create({**priority_class("NS-high", 0), "value": None}, CLASSES)],
    "a priority class above the highest": [create(priority_class("NS-high", 2_000_000_000), CLASSES)],
    "a priority class beyond all numbers": [create(priority_class("NS-high", 3_000_000_000), CLASSES)],
    "a priority class with a system name": [create(priority_class("system-NS", 5), CLASSES)],
    "a priority class with a bad name": [create(priority_class("Not_Good", 5), CLASSES)],
    "a priority class with an unknown policy": [create(priority_class("NS-x", 5, preemptionPolicy="Some"), CLASSES)],
    "a priority class's value is changed": [HIGH, merge({"value": 5}, THE_CLASS)],
    "a priority class's policy is changed": [HIGH, merge({"preemptionPolicy": "Never"}, THE_CLASS)],
    "a priority class's description is changed": [HIGH, merge({"description": "high"}, THE_CLASS)],
    "a second default priority class": [
        create(priority_class("NS-one", 1, globalDefault=True), CLASSES),
        create(priority_class("NS-two", 2, globalDefault=True), CLASSES),
        create(pod()),
        delete(f"{CLASSES}/NS-one"),
    ],
    "a priority class is deleted": [HIGH, delete(THE_CLASS), create(pod(priorityClassName="NS-high"))],
    "a disruption budget": [create(budget(minAvailable=1, selector={"matchLabels": {"a": "b"}}), BUDGETS)],
    "a disruption budget with two numbers": [create(budget(minAvailable=1, maxUnavailable=1), BUDGETS)],
    "a disruption budget with a bad share": [create(budget(minAvailable="half"), BUDGETS)],
    "a namespace that exists already": [create({"metadata": {"name": "NS"}}, NAMESPACES)],
    "a namespace with a bad name": [create({"metadata": {"name": "Not_Good"}}, NAMESPACES)],
    "a namespace with a name too long": [create({"metadata": {"name": "a" * 64}}, NAMESPACES)],
    "the default namespace is deleted": [delete(f"{NAMESPACES}/default")],
    "a pod in a namespace that is going": [
        create(with_metadata(pod(), finalizers=["example.com/stay"])),
        delete(f"{NAMESPACES}/NS"),
        create(pod("late")),
    ],
    "pods of every namespace": [get("/api/v1/pods?limit=1&fieldSelector=metadata.namespace%3DNS")],
    "a pod by its name alone": [get("/api/v1/pods/it")],
    "a cluster-wide kind in a namespace": [get("/api/v1/namespaces/NS/nodes")],
    "an object of a kind is created in all namespaces": [create(pod(), "/api/v1/pods")],
    "all pods of a namespace are deleted": [create(pod()), delete(PODS), get(f"{PODS}/it")],
}
