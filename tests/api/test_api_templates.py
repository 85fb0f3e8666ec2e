"""Pods made from a Job's template."""

from __future__ import annotations

import json

import pytest
from msgspec import Raw

from headgate.api.decode import decode
from headgate.api.owners import pod_from_template
from headgate.api.wire import InvalidObject
from headgate.model.keys import Key, Kind, Target
from headgate.model.objects import Job


def job(template: str) -> Job:
    return Job(Key(Kind.JOB, "d", "j"), "job-u", "7", {"of": "job"}, {}, Raw(template.encode()), 0.0)


OWN_LABELS = {
    "batch.kubernetes.io/controller-uid": "job-u",
    "batch.kubernetes.io/job-name": "j",
    "controller-uid": "job-u",
    "job-name": "j",
}


def test_a_pod_is_its_template_with_owner_and_labels():
    template = (
        '{"metadata": {"creationTimestamp": null, "labels": {"app": "x"},'
        ' "annotations": {"headgate.dev/run-seconds": "5"}},'
        ' "spec": {"containers": [{"name": "c"}], "unknown": 1.50}}'
    )
    create = pod_from_template(job(template), "j-x7", 3)
    assert create.key == Key(Kind.POD, "d", "j-x7")
    assert json.loads(bytes(create.manifest)) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "j-x7",
            "namespace": "d",
            "labels": {"app": "x", **OWN_LABELS, "batch.kubernetes.io/job-completion-index": "3"},
            "annotations": {"headgate.dev/run-seconds": "5", "batch.kubernetes.io/job-completion-index": "3"},
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": "j",
                    "uid": "job-u",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {"containers": [{"name": "c"}], "unknown": 1.5},
    }


def test_the_spec_is_passed_on_to_the_letter():
    create = pod_from_template(job('{"spec": {"containers": [], "number": 1.50, "unknown": null}}'), "j-1")
    assert b'{"containers": [], "number": 1.50, "unknown": null}' in bytes(create.manifest)


def test_labels_of_the_job_win_over_those_of_the_template():
    create = pod_from_template(job('{"metadata": {"labels": {"job-name": "other"}}, "spec": {}}'), "j-1")
    assert json.loads(bytes(create.manifest))["metadata"]["labels"] == OWN_LABELS


def test_the_pod_decodes_as_one_of_the_job():
    create = pod_from_template(job('{"metadata": null, "spec": {"containers": []}}'), "j-1")
    pod = decode(Kind.POD, create.manifest)
    assert (pod.key, pod.owner) == (create.key, Target(Key(Kind.JOB, "d", "j"), "job-u"))


@pytest.mark.parametrize(
    "template, error",
    [
        pytest.param("{}", "$.spec.template: Object missing required field spec", id="a template without spec"),
        pytest.param(
            '{"metadata": {"labels": {"a": 1}}, "spec": {}}',
            "$.spec.template.metadata.labels[...]: Expected str, got int",
            id="a label that is a number",
        ),
    ],
)
def test_a_malformed_template_is_named(template, error):
    with pytest.raises(InvalidObject) as refused:
        pod_from_template(job(template), "j-1")
    assert str(refused.value) == f"jobs.batch/d/j: {error}"
