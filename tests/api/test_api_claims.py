"""Claims, what they are bound to, and owners of pods, from bytes."""

import json

import pytest

from headgate.api.decode import decode
from headgate.api.wire import InvalidObject
from headgate.model.claims import (
    AttachLimits,
    Attachment,
    ClaimName,
    DeviceClaim,
    StorageClass,
    Volume,
    VolumeClaim,
)
from headgate.model.keys import Key, Kind, Target
from headgate.model.node import NodeTerm
from headgate.model.objects import ReplicaOwner, Replicas, Service, StatefulSet
from headgate.model.selectors import Operator, Requirement

TERM = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b", "a"]}]}
TERMS = (NodeTerm(expressions=(Requirement("zone", Operator.IN, ("a", "b")),)),)
POD_OWNER = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "pod-uid", "controller": True}]
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


def read(kind, metadata=None, **manifest):
    named = {"name": "x", "namespace": "d", "uid": "u", "resourceVersion": "7", **(metadata or {})}
    return decode(kind, json.dumps({"metadata": named, **manifest}).encode())


def claim(**fields):
    return VolumeClaim(Key(Kind.VOLUME_CLAIM, "d", "x"), "u", "7", **fields)


@pytest.mark.parametrize(
    "manifest, wanted",
    [
        pytest.param({}, claim(), id="bare"),
        pytest.param(
            {"spec": {"volumeName": "v", "storageClassName": "fast"}},
            claim(volume="v", storage_class="fast"),
            id="a volume is named, but the binding is not complete",
        ),
        pytest.param(
            {"metadata": {"annotations": BOUND}, "spec": {"volumeName": "v"}}, claim(volume="v", bound=True), id="bound"
        ),
        pytest.param({"metadata": {"annotations": BOUND}}, claim(), id="bound to nothing is not bound"),
        pytest.param(
            {
                "metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}},
                "spec": {"storageClassName": "new"},
            },
            claim(storage_class="old"),
            id="the annotation for the class goes before the field",
        ),
        pytest.param({"spec": {"accessModes": ["ReadWriteOncePod"]}}, claim(single_pod=True), id="for one pod alone"),
        pytest.param({"status": {"phase": "Lost"}}, claim(lost=True), id="lost"),
        pytest.param({"metadata": {"ownerReferences": POD_OWNER}}, claim(owner="pod-uid"), id="made for a pod"),
        pytest.param(
            {"metadata": {"deletionTimestamp": "1970-01-01T00:00:09Z"}}, claim(deleted=9.0), id="being deleted"
        ),
    ],
)
def test_volume_claims(manifest, wanted):
    assert read(Kind.VOLUME_CLAIM, **manifest) == wanted


def volume(**fields):
    return Volume(Key(Kind.VOLUME, "", "x"), "u", "7", fields.pop("labels", {}), **fields)


def required(*terms):
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": list(terms)}}}


@pytest.mark.parametrize(
    "manifest, wanted",
    [
        pytest.param({"spec": {"hostPath": {"path": "/x"}}}, volume(), id="reached from everywhere"),
        pytest.param({"spec": required(TERM)}, volume(terms=TERMS), id="reached from some nodes"),
        pytest.param({"spec": {"nodeAffinity": {}}}, volume(), id="an affinity that says nothing"),
        pytest.param(
            {"spec": {"csi": {"driver": "ebs", "volumeHandle": "h", "fsType": "ext4"}}},
            volume(attachment=Attachment("ebs", "h")),
            id="attached by a driver",
        ),
        pytest.param({"metadata": {"labels": {"zone": "a"}}}, volume(labels={"zone": "a"}), id="labels"),
    ],
)
def test_volumes(manifest, wanted):
    metadata = {"namespace": "", **manifest.pop("metadata", {})}
    assert read(Kind.VOLUME, metadata, **manifest) == wanted


DEVICES = Key(Kind.DEVICE_CLAIM, "d", "x")


@pytest.mark.parametrize(
    "kind, manifest, wanted",
    [
        pytest.param(
            Kind.DEVICE_CLAIM, {"spec": {"devices": {}}}, DeviceClaim(DEVICES, "u", "7"), id="devices not allocated"
        ),
        pytest.param(
            Kind.DEVICE_CLAIM,
            {"status": {"allocation": {"nodeSelector": {"nodeSelectorTerms": [TERM]}}}},
            DeviceClaim(DEVICES, "u", "7", True, TERMS),
            id="devices of some nodes",
        ),
        pytest.param(
            Kind.DEVICE_CLAIM,
            {"status": {"allocation": {}}},
            DeviceClaim(DEVICES, "u", "7", True),
            id="devices for all nodes",
        ),
        pytest.param(
            Kind.STORAGE_CLASS,
            {"metadata": {"namespace": ""}, "volumeBindingMode": "WaitForFirstConsumer"},
            StorageClass(Key(Kind.STORAGE_CLASS, "", "x"), "u", "7", waits=True),
            id="a class that waits",
        ),
        pytest.param(
            Kind.STORAGE_CLASS,
            {"metadata": {"namespace": ""}, "provisioner": "p"},
            StorageClass(Key(Kind.STORAGE_CLASS, "", "x"), "u", "7"),
            id="a class that does not",
        ),
        pytest.param(
            Kind.CSI_NODE,
            {
                "metadata": {"namespace": ""},
                "spec": {"drivers": [{"name": "a", "allocatable": {"count": 3}}, {"name": "b", "allocatable": {}}]},
            },
            AttachLimits(Key(Kind.CSI_NODE, "", "x"), "u", "7", {"a": 3}),
            id="limits of the drivers that have one",
        ),
        pytest.param(
            Kind.SERVICE,
            {"spec": {"selector": {"app": "web"}}},
            Service(Key(Kind.SERVICE, "d", "x"), "u", "7", {"app": "web"}),
            id="a service",
        ),
        pytest.param(
            Kind.SERVICE, {"spec": {}}, Service(Key(Kind.SERVICE, "d", "x"), "u", "7", {}), id="a service for none"
        ),
        pytest.param(
            Kind.REPLICATION_CONTROLLER,
            {"spec": {"selector": {"b": "2", "a": "1"}}},
            ReplicaOwner(
                Key(Kind.REPLICATION_CONTROLLER, "d", "x"),
                "u",
                "7",
                (Requirement("a", Operator.IN, ("1",)), Requirement("b", Operator.IN, ("2",))),
            ),
            id="a ReplicationController",
        ),
        *(
            pytest.param(
                kind,
                {"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}},
                owner(Key(kind, "d", "x"), "u", "7", (Requirement("a", Operator.EXISTS),)),
                id=f"one of {kind}",
            )
            for kind, owner in ((Kind.REPLICA_SET, Replicas), (Kind.STATEFUL_SET, StatefulSet))
        ),
    ],
)
def test_other_kinds(kind, manifest, wanted):
    assert read(kind, **manifest) == wanted


def test_a_selector_that_cannot_be_read_is_named():
    with pytest.raises(InvalidObject, match=r"spec\.selector"):
        read(Kind.REPLICA_SET, spec={"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}})


def pod(spec=None, status=None, **metadata):
    return read(Kind.POD, metadata, spec={"containers": [{"name": "c"}], **(spec or {})}, status=status or {})


VOLUME_CLAIM, DEVICE_CLAIM = Kind.VOLUME_CLAIM, Kind.DEVICE_CLAIM
FROM_TEMPLATE = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}


@pytest.mark.parametrize(
    "spec, status, claims",
    [
        pytest.param({"volumes": [{"name": "v", "emptyDir": {}}]}, {}, (), id="volumes without claims"),
        pytest.param(
            {
                "volumes": [
                    {"name": "v", "persistentVolumeClaim": {"claimName": "data"}},
                    {"name": "again", "persistentVolumeClaim": {"claimName": "data"}},
                    {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
                ]
            },
            {},
            (ClaimName(VOLUME_CLAIM, "data"), ClaimName(VOLUME_CLAIM, "x-scratch", made_for_pod=True)),
            id="claims by name once, and those made for the pod by the volume's name",
        ),
        pytest.param(
            {"resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]},
            {},
            (ClaimName(DEVICE_CLAIM, "shared"),),
            id="a claim to devices by name",
        ),
        pytest.param(FROM_TEMPLATE, {}, (ClaimName(DEVICE_CLAIM, "", True),), id="one that is yet to be made"),
        pytest.param(
            FROM_TEMPLATE,
            {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "x-gpu-1"}]},
            (ClaimName(DEVICE_CLAIM, "x-gpu-1", True),),
            id="one that was made for the pod",
        ),
        pytest.param(
            FROM_TEMPLATE, {"resourceClaimStatuses": [{"name": "gpu"}]}, (), id="one that turned out not to be needed"
        ),
    ],
)
def test_claims_of_pods(spec, status, claims):
    assert pod(spec, status).shape.claims == claims


def test_a_volume_that_cannot_be_read_is_named():
    with pytest.raises(InvalidObject, match=r"spec\.volumes\[0\]\.persistentVolumeClaim"):
        pod({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": 3}}]})


def owned(version, kind, **fields):
    return pod(
        ownerReferences=[{"apiVersion": version, "kind": kind, "name": "o", "uid": "w", "controller": True} | fields]
    )


@pytest.mark.parametrize(
    "version, kind, found",
    [
        pytest.param("apps/v1", "ReplicaSet", Kind.REPLICA_SET, id="a ReplicaSet"),
        pytest.param("apps/v1", "StatefulSet", Kind.STATEFUL_SET, id="a StatefulSet"),
        pytest.param("v1", "ReplicationController", Kind.REPLICATION_CONTROLLER, id="a ReplicationController"),
    ],
)
def test_the_controller_of_a_pod(version, kind, found):
    assert owned(version, kind).owner == Target(Key(found, "d", "o"), "w")
    assert owned(version, kind, controller=False).owner is None
    assert owned("example.com/v1", kind).owner is None


def test_a_pod_of_a_daemon_set_is_known_by_its_controller():
    assert owned("apps/v1", "DaemonSet").of_daemon_set
    assert not owned("apps/v1", "DaemonSet", controller=False).of_daemon_set
    assert not owned("example.com/v1", "DaemonSet").of_daemon_set
    assert not owned("apps/v1", "ReplicaSet").of_daemon_set
