"""Admission of Volcano's queues and PodGroups, and of pods that ask for the queue-allocation gate."""

import json

import pytest
from builders import amounts
from handling import response_of, webhook_settings
from msgspec.structs import replace
from volcano_scenes import queue

from headgate.api.decode import InvalidObject, decode
from headgate.apiserver import ADMISSION, WebhookAdmission
from headgate.apiserver.kinds import INITIAL_OBJECTS
from headgate.apiserver.messages import Request
from headgate.apiserver.server import ApiServer
from headgate.gates.webhooks import HANDLERS
from headgate.model.admission import AdmissionAllowed, AdmissionDenied, AdmissionRequest, AdmissionWebhook
from headgate.model.keys import Kind
from headgate.model.settings import Profile, Settings, VolcanoSettings
from headgate.model.volcano import QUEUE_GATE, QueueState
from headgate.simulator.cluster import installed_objects, lookup_in, our_webhooks

OPT_IN = {QUEUE_GATE: "true"}
OURS = replace(webhook_settings(), gated_schedulers=frozenset({"headgate", "volcano"}))


def reader(kind):
    def read(value):
        try:
            return decode(kind, json.dumps(value).encode())
        except InvalidObject:
            return None

    return read


def queue_manifest(name="team", **spec):
    return {"metadata": {"name": name}, "spec": spec}


def judged(new, world=(), old=None, webhook=AdmissionWebhook.VALIDATE_VOLCANO_QUEUE, kind=Kind.VOLCANO_QUEUE):
    return response_of(HANDLERS[webhook](AdmissionRequest("", new, old, reader(kind)), OURS), world)


def pod_manifest(scheduler="headgate", annotations=OPT_IN, **spec):
    return {"metadata": {"name": "a", "annotations": annotations}, "spec": {"schedulerName": scheduler, **spec}}


def gates_of(manifest, settings=OURS):
    answer = HANDLERS[AdmissionWebhook.DEFAULT_QUEUE_GATE](AdmissionRequest("default", manifest), settings)
    assert isinstance(answer, AdmissionAllowed)
    stored = answer.changed or manifest
    return [gate["name"] for gate in stored["spec"].get("schedulingGates") or ()]


# the gate


@pytest.mark.parametrize("annotation", [QUEUE_GATE, "volcano.sh/queue-allocation-gate"])
def test_a_pod_that_asks_for_it_is_gated(annotation):
    assert gates_of(pod_manifest(annotations={annotation: "true"})) == [QUEUE_GATE]


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({}, id="no annotation"),
        pytest.param({QUEUE_GATE: "false"}, id="false"),
        pytest.param({QUEUE_GATE: "True"}, id="only true is true"),
        pytest.param(None, id="no annotations at all"),
    ],
)
def test_a_pod_that_does_not_ask_for_it_is_not_gated(annotations):
    assert gates_of(pod_manifest(annotations=annotations)) == []


def test_gates_of_others_stay_and_the_gate_is_added_once():
    foreign = [{"name": "example.com/a"}, {"name": "example.com/b"}]
    once = gates_of(pod_manifest(schedulingGates=foreign))
    assert once == ["example.com/a", "example.com/b", QUEUE_GATE]
    assert gates_of(pod_manifest(schedulingGates=[{"name": name} for name in once])) == once


@pytest.mark.parametrize("scheduler", ["default-scheduler", "theirs", ""])
def test_a_pod_of_another_scheduler_is_left_alone(scheduler):
    assert gates_of(pod_manifest(scheduler)) == []


def test_a_pod_that_names_its_node_is_left_alone():
    assert gates_of(pod_manifest(nodeName="n")) == []


def test_with_the_feature_off_no_pod_is_gated():
    settings = Settings(profiles=(Profile("headgate"),), volcano=VolcanoSettings(gates=False))
    assert gates_of(pod_manifest(), replace(OURS, gated_schedulers=settings.gated_schedulers)) == []


class Server:
    """The small Kubernetes as `headgate install --volcano` leaves it; with `down`, nobody answers its webhooks."""

    def __init__(self, *, down=False):
        settings = Settings(profiles=(Profile("headgate"), Profile("volcano")))
        ours = our_webhooks(settings, lookup_in(lambda: self.server))
        webhooks = WebhookAdmission({}) if down else ours
        objects = (*INITIAL_OBJECTS, *installed_objects(settings))
        self.server = ApiServer(admission=(*ADMISSION, webhooks), objects=objects)

    def write(self, method, path, value=None):
        body = json.dumps(value).encode() if value is not None else b""
        return self.server.handle(Request(method, path, body=body), 0.0)

    def create_pod(self, **fields):
        manifest = pod_manifest(**fields)
        manifest["spec"]["containers"] = [{"name": "c", "image": "none"}]
        manifest["metadata"] = {"generateName": "a-", "annotations": manifest["metadata"]["annotations"]}
        return self.write("POST", "/api/v1/namespaces/default/pods", {"apiVersion": "v1", "kind": "Pod", **manifest})

    def create_queue(self, name, **spec):
        value = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", **queue_manifest(name, **spec)}
        return self.write("POST", QUEUES, value)


QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"


def test_an_installed_cluster_gates_annotated_pods_of_our_schedulers():
    server = Server()
    assert server.create_pod(scheduler="volcano").value["spec"]["schedulingGates"] == [{"name": QUEUE_GATE}]


@pytest.mark.parametrize("named", ["gone", "empty"], ids=["that is not there", "that has no capacity"])
def test_no_pod_is_refused_for_its_queue(named):
    server = Server()
    assert server.create_queue("empty", capability={"cpu": "0"}).code == 201
    made = server.create_pod(annotations={**OPT_IN, "scheduling.volcano.sh/queue-name": named})
    assert (made.code, made.value["spec"]["schedulingGates"]) == (201, [{"name": QUEUE_GATE}])


def test_while_nobody_answers_only_annotated_pods_of_our_schedulers_are_refused():
    server = Server(down=True)
    assert server.create_pod().code == 500
    assert server.create_pod(annotations={QUEUE_GATE: "false"}).code == 201
    assert server.create_pod(scheduler="theirs").code == 201


# queues


def test_a_queue_is_below_the_root_unless_it_says_otherwise():
    server = Server()
    stored = server.create_queue("team", capability={"cpu": "4"}).value["spec"]
    expected = {"parent": "root", "reclaimable": True, "weight": 1, "dequeueStrategy": "traverse"}
    assert stored == {"capability": {"cpu": "4"}, **expected}


WORLD = (queue("org", 10_000, guarantee=4000, deserved=6000), queue("a", 8000, "org", guarantee=3000, deserved=3000))


@pytest.mark.parametrize(
    "spec, message",
    [
        pytest.param({}, None, id="nothing"),
        pytest.param({"parent": "org", "capability": {"cpu": "10"}}, None, id="as much as its parent"),
        pytest.param(
            {"parent": "team"}, 'spec.parent: Invalid value: "team": a queue can not be below itself', id="self"
        ),
        pytest.param({"parent": "nowhere"}, 'spec.parent: Not found: "nowhere"', id="no such parent"),
        pytest.param(
            {"parent": "a", "capability": {"cpu": "9"}},
            'spec.capability[cpu]: Invalid value: "9": must not exceed the capability of queue a, 8',
            id="more than the nearest queue above that has a limit",
        ),
        pytest.param(
            {"parent": "org", "guarantee": {"resource": {"cpu": "2"}}},
            'spec.guarantee.resource[cpu]: Invalid value: "5": the queues below org have this much together, more than '
            "the guarantee of queue org, 4",
            id="guarantees beside it",
        ),
        pytest.param(
            {"parent": "org", "deserved": {"cpu": "4"}},
            'spec.deserved[cpu]: Invalid value: "7": the queues below org have this much together, more than the '
            "deserved of queue org, 6",
            id="what the others deserve",
        ),
        pytest.param(
            {"capability": {"cpu": "1"}, "deserved": {"cpu": "2"}},
            'spec.deserved[cpu]: Invalid value: "2": must not exceed spec.capability, 1',
            id="deserves more than it may use",
        ),
        pytest.param(
            {"deserved": {"cpu": "1"}, "guarantee": {"resource": {"cpu": "2"}}},
            'spec.guarantee.resource[cpu]: Invalid value: "2": must not exceed spec.deserved, 1',
            id="is guaranteed more than it deserves",
        ),
        pytest.param(
            {"capability": {"cpu": "-1"}},
            'spec.capability[cpu]: Invalid value: "-1": must be greater than or equal to 0',
            id="less than nothing",
        ),
    ],
)
def test_the_tree_of_queues(spec, message):
    assert judged(queue_manifest(**spec), WORLD) == (AdmissionDenied(message) if message else AdmissionAllowed())


def test_a_queue_can_not_move_below_its_own_child():
    moved = judged(queue_manifest("org", parent="a"), WORLD, queue_manifest("org"))
    assert moved == AdmissionDenied('spec.parent: Invalid value: "a": the queue a is below this one, or below itself')


def test_a_queue_with_pods_is_no_parent():
    busy = queue("busy", allocated=amounts(100))
    answer = judged(queue_manifest(parent="busy"), [busy])
    assert answer == AdmissionDenied('spec.parent: Invalid value: "busy": the queue has pods of its own')


def test_a_chain_of_queues_has_an_end():
    chain = [queue("root", parent=""), *(queue(f"q{n}", parent=f"q{n - 1}" if n else "root") for n in range(16))]
    assert judged(queue_manifest(parent="q13"), chain) == AdmissionAllowed()
    denied = judged(queue_manifest(parent="q14"), chain)
    assert denied == AdmissionDenied('spec.parent: Invalid value: "q14": at most 16 queues may be above one another')


def test_a_parent_keeps_what_its_children_have():
    smaller = judged(queue_manifest("org", guarantee={"resource": {"cpu": "2"}}), WORLD, queue_manifest("org"))
    assert isinstance(smaller, AdmissionDenied)
    assert "more than the guarantee that this queue says, 2" in smaller.message


def test_the_root_stays_as_it_is():
    before = queue_manifest("root", capability={"cpu": "4"})
    assert judged(before, [], before) == AdmissionAllowed()
    changed = judged(queue_manifest("root", capability={"cpu": "5"}), [], before)
    assert changed == AdmissionDenied("spec: Forbidden: the root queue can not be changed")


@pytest.mark.parametrize(
    "name, world, message",
    [
        pytest.param("team", [], None, id="an idle queue"),
        pytest.param("root", [], "the queue root can not be deleted", id="the root"),
        pytest.param("default", [], "the queue default can not be deleted", id="the default queue"),
        pytest.param("org", WORLD, "the queue org has queues below it: a", id="a parent"),
    ],
)
def test_deletion(name, world, message):
    answer = judged({}, world, queue_manifest(name))
    assert answer == (AdmissionDenied(message) if message else AdmissionAllowed())


def test_a_queue_with_pods_on_nodes_is_not_deleted():
    old = {**queue_manifest("team"), "status": {"allocated": {"cpu": "1"}}}
    assert judged({}, [], old) == AdmissionDenied("the queue team has pods on nodes; wait until they are gone")


def test_a_server_asks_before_it_deletes_a_queue():
    server = Server()
    server.create_queue("default")
    server.create_queue("team")
    assert server.write("DELETE", f"{QUEUES}/default").code == 403
    assert server.write("DELETE", f"{QUEUES}/team").code == 200


# PodGroups


def group_judged(spec, world=(), old=None):
    kind, webhook = Kind.VOLCANO_POD_GROUP, AdmissionWebhook.VALIDATE_VOLCANO_POD_GROUP
    return judged({"metadata": {"name": "train"}, "spec": spec}, world, old, webhook, kind)


@pytest.mark.parametrize(
    "spec, message",
    [
        pytest.param({"queue": "team"}, None, id="a queue that is open"),
        pytest.param({}, None, id="the default queue, which need not be there"),
        pytest.param({"queue": "nowhere"}, 'spec.queue: Not found: "nowhere"', id="no such queue"),
        pytest.param(
            {"queue": "old"},
            'spec.queue: Invalid value: "old": the queue is Closed, expected one that is Open',
            id="a closed queue",
        ),
        pytest.param(
            {"queue": "org"},
            'spec.queue: Invalid value: "org": expected a queue without queues below it, this one has team',
            id="a queue with queues below it",
        ),
        pytest.param(
            {"queue": "team", "subGroupPolicy": [{"name": "a"}]},
            "spec.subGroupPolicy: Forbidden: is not served: its pods would be placed otherwise than it says",
            id="groups within the group",
        ),
    ],
)
def test_a_new_pod_group(spec, message):
    world = [queue("org"), queue("team", parent="org"), queue("old", state=QueueState.CLOSED)]
    assert group_judged(spec, world) == (AdmissionDenied(message) if message else AdmissionAllowed())


def test_a_pod_group_of_a_queue_that_was_closed_since_can_still_be_changed():
    closed = [queue("old", state=QueueState.CLOSED)]
    old = {"metadata": {"name": "train"}, "spec": {"queue": "old"}}
    assert group_judged({"queue": "old", "minMember": 2}, closed, old) == AdmissionAllowed()


@pytest.mark.parametrize(
    "spec, path",
    [
        pytest.param({"affinity": {"nodeGroupAffinity": {}}}, "spec.affinity", id="groups of nodes"),
        pytest.param({"extendClusters": [{"name": "a"}]}, "spec.extendClusters", id="other clusters"),
        pytest.param(
            {"capability": {"deviceclass/gpu": "4"}}, "spec.capability[deviceclass/gpu]", id="devices through claims"
        ),
    ],
)
def test_what_is_not_served_is_refused(spec, path):
    answer = judged(queue_manifest(**spec))
    assert isinstance(answer, AdmissionDenied)
    assert answer.message.startswith(f"{path}: Forbidden: is not served")
