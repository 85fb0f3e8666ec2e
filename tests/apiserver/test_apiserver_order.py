"""The order of a write, and that every request gets an answer."""

import msgspec
import pytest
from apiserver_client import CONFIG_MAPS, JSON_PATCH, MERGE, PODS, STRATEGIC, Client, binding, config_map, pod, refused
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.apiserver import ApiError, ApiServer, Complaint, FieldError, Request, ResourceType


class Recorder:
    """Rules and admission in one that note who is asked when; `data.fault` names who says no."""

    resources = None
    keeps_complete = False

    def __init__(self):
        self.asked = []

    def note(self, step, value):
        self.asked.append(step)
        return step == (value or {}).get("data", {}).get("fault")

    def prepare_create(self, new):
        self.note("prepare", new)
        return new

    def prepare_update(self, new, old):
        self.note("prepare", new)
        return new

    prepare_status = prepare_update

    def validate_create(self, new):
        wrong = FieldError("data.fault", Complaint.INVALID, "says no", "kind")
        return [wrong] if self.note("kind", new) else []

    def validate_update(self, new, old):
        return self.validate_create(new)

    validate_status = validate_update

    def mutate(self, operation, catalog):
        if self.note("mutate", operation.new):
            raise ApiError(403, "Forbidden", "mutate says no")
        if operation.new is None or operation.new["data"].get("fault") != "touch":
            return operation.new
        return {**operation.new, "data": {**operation.new["data"], "touched": "yes"}}

    def validate(self, operation, catalog):
        if self.note("judge", operation.new):
            raise ApiError(403, "Forbidden", "judge says no")


@pytest.fixture
def recorded():
    recorder = Recorder()
    types = (
        ResourceType("", "v1", "namespaces", "Namespace", False, recorder),
        ResourceType("", "v1", "configmaps", "ConfigMap", True, recorder),
    )
    first = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}, "data": {}}
    client = Client(ApiServer(types=types, admission=(recorder,), objects=(first,)))
    recorder.asked.clear()
    return client, recorder


@pytest.mark.parametrize(
    "fault, code, asked",
    [
        pytest.param("", 201, ["prepare", "mutate", "kind", "judge"], id="an object without fault passes all"),
        pytest.param(
            "touch", 201, ["prepare", "mutate", "prepare", "kind", "judge"], id="a mutated one is prepared twice"
        ),
        pytest.param("mutate", 403, ["prepare", "mutate"], id="mutating admission comes before validation"),
        pytest.param("kind", 422, ["prepare", "mutate", "kind"], id="the kind's rules come before judging admission"),
        pytest.param("judge", 403, ["prepare", "mutate", "kind", "judge"], id="judging admission comes last"),
    ],
)
def test_the_order_of_a_creation(recorded, fault, code, asked):
    client, recorder = recorded
    assert client.ask("POST", CONFIG_MAPS, config_map(data={"fault": fault})).code == code
    assert recorder.asked == asked
    assert client.exists(f"{CONFIG_MAPS}/a") is (code == 201)


@pytest.mark.parametrize(
    "fault, code, asked",
    [
        pytest.param("", 200, ["prepare", "mutate", "kind", "judge"], id="an update without fault passes all"),
        pytest.param("kind", 422, ["prepare", "mutate", "kind"], id="the kind's rules come before judging admission"),
        pytest.param("judge", 403, ["prepare", "mutate", "kind", "judge"], id="judging admission comes last"),
    ],
)
def test_the_order_of_an_update(recorded, fault, code, asked):
    client, recorder = recorded
    before = client.create(CONFIG_MAPS, config_map())
    recorder.asked.clear()
    assert client.ask("PATCH", f"{CONFIG_MAPS}/a", {"data": {"fault": fault}}, MERGE).code == code
    assert recorder.asked == asked
    assert (client.get(f"{CONFIG_MAPS}/a") == before) is (code != 200)


def test_admission_is_asked_about_deletions(recorded):
    client, recorder = recorded
    client.create(CONFIG_MAPS, config_map())
    recorder.asked.clear()
    client.delete(f"{CONFIG_MAPS}/a")
    assert recorder.asked == ["mutate", "judge"]


class Renames:
    """Admission that meddles with what is not its to change."""

    resources = None
    keeps_complete = False

    def mutate(self, operation, catalog):
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "other", "uid": "u", "labels": {"x": "y"}},
        }

    def validate(self, operation, catalog):
        pass


def test_admission_cannot_make_another_object_of_it():
    types = (ResourceType("", "v1", "configmaps", "ConfigMap", False, Recorder()),)
    client = Client(ApiServer(types=types, admission=(Renames(),), objects=()))
    created = client.create("/api/v1/configmaps", config_map())
    assert (created["metadata"]["name"], created["metadata"]["labels"]) == ("a", {"x": "y"})
    patched = client.patch("/api/v1/configmaps/a", {"data": {"k": "v"}})
    assert patched["metadata"]["uid"] == created["metadata"]["uid"] != "u"


class OfSecrets(Renames):
    """The same, of another kind only."""

    resources = frozenset({("", "secrets")})


def test_admission_has_a_say_about_its_own_resources_only():
    types = (ResourceType("", "v1", "configmaps", "ConfigMap", False, Recorder()),)
    client = Client(ApiServer(types=types, admission=(OfSecrets(),), objects=()))
    assert "labels" not in client.create("/api/v1/configmaps", config_map())["metadata"]


class KeepsAll:
    """Admission that lets nothing be deleted."""

    resources = None
    keeps_complete = False

    def mutate(self, operation, catalog):
        return operation.new

    def validate(self, operation, catalog):
        if operation.verb == "DELETE":
            raise ApiError(403, "Forbidden", "nothing is deleted here")


def test_a_deletion_that_admission_refuses_does_not_happen():
    client = Client(ApiServer(admission=(KeepsAll(),)))
    client.create(CONFIG_MAPS, config_map())
    assert refused(client.ask("DELETE", f"{CONFIG_MAPS}/a")) == (403, "Forbidden", "nothing is deleted here")
    assert client.exists(f"{CONFIG_MAPS}/a")


def story():
    """Some of everything."""
    client = Client(ApiServer(seed=7))
    watch = client.server.watch("/api/v1/pods", {})
    for number in range(3):
        client.create(PODS, {**pod(), "metadata": {"generateName": f"p{number}-"}})
    for name in client.names(PODS)[:2]:
        client.ask("POST", f"{PODS}/{name}/binding", binding())
    client.delete(PODS)
    return [(event.type, event.raw) for event in watch.drain()]


def test_equal_seeds_and_requests_give_equal_histories():
    assert story() == story()


values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a", "default", "Pod"]),
    lambda part: (
        st.lists(part, max_size=2)
        | st.dictionaries(
            st.sampled_from(["metadata", "spec", "name", "labels", "finalizers", "ownerReferences", "uid", "target"]),
            part,
            max_size=3,
        )
    ),
    max_leaves=6,
)
paths = st.sampled_from(
    [PODS, f"{PODS}/a", f"{PODS}/a/status", f"{PODS}/a/binding", f"{PODS}/a/eviction", CONFIG_MAPS, f"{CONFIG_MAPS}/a"]
)
content_types = st.sampled_from([MERGE, JSON_PATCH, STRATEGIC])


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["POST", "PUT", "PATCH", "DELETE"]), paths, values, content_types)
def test_any_body_gets_an_answer_and_a_refused_one_changes_nothing(method, path, body, content_type):
    client = Client()
    client.create(PODS, pod())
    client.create(CONFIG_MAPS, config_map())
    before = client.get(PODS)["items"], client.get(CONFIG_MAPS)["items"]
    raw = msgspec.json.encode(body)
    response = client.server.handle(Request(method, path, {}, raw, content_type), 1_000.0)
    assert response.code < 500 or path.endswith("/binding"), "a bad target is a real server's own fault"
    if response.code >= 400:
        assert (client.get(PODS)["items"], client.get(CONFIG_MAPS)["items"]) == before
