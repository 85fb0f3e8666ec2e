"""Label and field selectors, and the selectors inside objects."""

import pytest
from apiserver_client import PODS, Client, binding, pod, refused
from hypothesis import given
from hypothesis import strategies as st

from headgate.apiserver.selectors import object_selector
from headgate.apiserver.status import StatusError

LABELLED = {"web": {"app": "web", "tier": "1"}, "db": {"app": "db", "tier": "2"}, "bare": {}}


@pytest.mark.parametrize(
    "text, names",
    [
        pytest.param("app=web", ["web"], id="by a label"),
        pytest.param("app!=web", ["bare", "db"], id="by any other label, or none"),
        pytest.param("app in (web, db),!none", ["db", "web"], id="by several demands"),
        pytest.param("tier>1", ["db"], id="by a number"),
        pytest.param("!app", ["bare"], id="without the label"),
        pytest.param(" ", ["bare", "db", "web"], id="blanks select everything"),
    ],
)
def test_label_selectors_of_pods(text, names):
    client = Client()
    for name, labels in LABELLED.items():
        client.create(PODS, {**pod(name), "metadata": {"name": name, "labels": labels}})
    assert client.names(f"{PODS}?labelSelector={text}") == names


@pytest.mark.parametrize(
    "query, message",
    [
        pytest.param(
            "labelSelector=app in web",
            "unable to parse requirement: found 'web' expected: '('",
            id="a set without parentheses",
        ),
        pytest.param("fieldSelector=spec.color=red", "field label not supported: spec.color", id="an unknown field"),
        pytest.param(
            "fieldSelector=spec.nodeName",
            "invalid selector: 'spec.nodeName'; can't understand 'spec.nodeName'",
            id="a field without value",
        ),
        pytest.param("fieldSelector==a", "field label not supported: ", id="a field without a name"),
        pytest.param(
            r"fieldSelector=metadata.name=\x",
            r"invalid field selector: invalid escape sequence: \x",
            id="a value with an escape that is none",
        ),
        pytest.param("limit=few", "limit: expected a whole number, found 'few'", id="a limit in words"),
        pytest.param("continue=x", "continue key is not valid: x", id="a broken continuation"),
    ],
)
def test_a_list_is_refused(query, message):
    assert refused(Client().ask("GET", f"{PODS}?{query}")) == (400, "BadRequest", message)


@pytest.mark.parametrize(
    "selector, names",
    [
        pytest.param("metadata.name=a", ["a"], id="by name"),
        pytest.param("metadata.name!=a", ["b", "c"], id="by any other name"),
        pytest.param("metadata.namespace=default", ["a", "b", "c"], id="by namespace"),
        pytest.param("spec.nodeName=n-1", ["a"], id="by node"),
        pytest.param("spec.nodeName=", ["b", "c"], id="without a node"),
        pytest.param("status.phase=Running", ["b"], id="by phase"),
        pytest.param("spec.schedulerName=mine", ["c"], id="by scheduler"),
        pytest.param("spec.nodeName=,status.phase!=Running", ["c"], id="by two fields"),
        pytest.param("metadata.name=c&labelSelector=app", [], id="by a field and a label"),
    ],
)
def test_field_selectors_of_pods(selector, names):
    client = Client()
    for value in (pod("a"), pod("b"), pod("c", schedulerName="mine")):
        client.create(PODS, value)
    client.ask("POST", f"{PODS}/a/binding", binding("n-1"))
    client.patch(f"{PODS}/b/status", {"status": {"phase": "Running"}})
    assert client.names(f"{PODS}?fieldSelector={selector}") == names


keys = st.sampled_from("ab")
values = st.sampled_from("xyz")
labels = st.dictionaries(keys, values)


@given(labels, labels)
def test_a_map_of_labels_selects_exactly_its_supersets(wanted, labels):
    selected = object_selector({"matchLabels": wanted})(labels)
    assert selected is (wanted.items() <= labels.items())


@given(labels)
def test_no_selector_selects_nothing_and_an_empty_one_everything(labels):
    assert not object_selector(None)(labels)
    assert object_selector({})(labels)


def test_a_stored_selector_that_is_none_is_an_error_of_the_server():
    with pytest.raises(StatusError, match="Internal error occurred: matchExpressions"):
        object_selector({"matchExpressions": [{"key": "a", "operator": "Near"}]})
