"""Label and field selectors, and the selectors inside objects."""

import pytest
from apiserver_client import PODS, Client, binding, pod, refused
from hypothesis import given
from hypothesis import strategies as st

from headgate.apiserver.selectors import label_selector, object_selector

LABELS = {"app": "web", "tier": "1", "example.com/role": ""}


@pytest.mark.parametrize(
    "text, holds",
    [
        pytest.param("app=web", True, id="equal"),
        pytest.param("app==web", True, id="equal with two signs"),
        pytest.param("app = web", True, id="spaces around the sign"),
        pytest.param("app=db", False, id="another value"),
        pytest.param("app!=db", True, id="unequal"),
        pytest.param("none!=db", True, id="unequal holds without the label"),
        pytest.param("app in (db, web)", True, id="in a set"),
        pytest.param("app notin (db,web)", False, id="not in a set"),
        pytest.param("none notin (db)", True, id="not in a set holds without the label"),
        pytest.param("app", True, id="the label exists"),
        pytest.param("!app", False, id="the label does not exist"),
        pytest.param("!none", True, id="no such label"),
        pytest.param("example.com/role=", True, id="an empty value"),
        pytest.param("tier>0", True, id="greater"),
        pytest.param("tier<1", False, id="less"),
        pytest.param("app>0", False, id="text is never greater"),
        pytest.param("app=web,tier in (1,2),!none", True, id="all must hold"),
        pytest.param("app=web,tier=2", False, id="one does not hold"),
    ],
)
def test_label_selectors(text, holds):
    assert label_selector(text)(LABELS) is holds


@pytest.mark.parametrize(
    "query, message",
    [
        pytest.param(
            "labelSelector=app in web",
            "unable to parse requirement: found 'app in web', expected key, key=value or key in (values)",
            id="a set without parentheses",
        ),
        pytest.param("fieldSelector=spec.color=red", "field label not supported: spec.color", id="an unknown field"),
        pytest.param(
            "fieldSelector=spec.nodeName",
            "invalid selector: 'spec.nodeName'; can't understand 'spec.nodeName'",
            id="a field without value",
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


@given(labels, keys, st.lists(values, min_size=1))
def test_a_set_and_its_negation_never_agree(labels, key, members):
    listed = ",".join(members)
    inside, outside = (label_selector(f"{key} {word} ({listed})")(labels) for word in ("in", "notin"))
    assert inside is not outside


@given(labels, labels)
def test_a_map_of_labels_selects_exactly_its_supersets(wanted, labels):
    selected = object_selector({"matchLabels": wanted})(labels)
    assert selected is (wanted.items() <= labels.items())


@given(labels)
def test_no_selector_selects_nothing_and_an_empty_one_everything(labels):
    assert not object_selector(None)(labels)
    assert object_selector({})(labels)
