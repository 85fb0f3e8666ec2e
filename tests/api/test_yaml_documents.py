"""YAML from files nobody has checked: what is read is what Kubernetes reads, and what is refused costs little."""

from __future__ import annotations

import io
import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from headgate.api import yaml_documents
from headgate.api.yaml_documents import DEEPEST, InvalidYaml, read_yaml, read_yaml_documents


@pytest.mark.parametrize(
    "text, value",
    [
        pytest.param("", None, id="nothing"),
        pytest.param("a: 1\nb: [x, 'y', \"z\"]", {"a": 1, "b": ["x", "y", "z"]}, id="mappings and lists"),
        pytest.param("[yes, No, ON, off, true]", [True, False, True, False, True], id="words for true and false"),
        pytest.param("[~, null, NULL, '', 'null']", [None, None, None, "", "null"], id="null, and text that says so"),
        pytest.param("a:\nb:", {"a": None, "b": None}, id="fields without a value are null"),
        pytest.param("[010, 0o10, 0x1F, 0b11, 1_000, -5, +5, 0, -0]", [8, 8, 31, 3, 1000, -5, 5, 0, 0], id="integers"),
        pytest.param("[18446744073709551615, -9223372036854775808]", [2**64 - 1, -(2**63)], id="64 bits"),
        pytest.param("[1.5, .5, 1e3, 1., 08]", [1.5, 0.5, 1000.0, 1.0, 8.0], id="floats"),
        pytest.param(
            "[1:30, 2020-01-01, 1Gi, 100m, 0x, 1.2.3, -, --]".replace("-, --", "'-', --"),
            ["1:30", "2020-01-01", "1Gi", "100m", "0x", "1.2.3", "-", "--"],
            id="what only looks like numbers",
        ),
        pytest.param("{1: a, true: b, 1.5: c, null: d}", {"1": "a", "true": "b", "1.5": "c", "null": "d"}, id="keys"),
        pytest.param("a: &x [1]\nb: *x", {"a": [1], "b": [1]}, id="an alias"),
        pytest.param(
            "a: &x {k: 1, l: 2}\nb: {<<: *x, k: 3}", {"a": {"k": 1, "l": 2}, "b": {"k": 3, "l": 2}}, id="a merge"
        ),
        pytest.param(
            "[&x {k: 1}, &y {k: 2, l: 2}, {<<: [*x, *y]}]",
            [{"k": 1}, {"k": 2, "l": 2}, {"k": 1, "l": 2}],
            id="of several merged mappings the first wins",
        ),
        pytest.param("{'<<': 1}", {"<<": 1}, id="a quoted << is a key"),
        pytest.param(
            "[!!str 1, !!float 1, !!int 2, ! 3, !!bool yes, !!timestamp 2020-01-01]",
            ["1", 1.0, 2, "3", True, "2020-01-01"],
            id="tags of JSON's types",
        ),
        pytest.param("\ufeffa: 1", {"a": 1}, id="a byte order mark"),
        pytest.param('{"a": [1, {"b": null}]}', {"a": [1, {"b": None}]}, id="JSON"),
    ],
)
def test_values_are_those_that_kubernetes_reads(text, value):
    found = read_yaml(text.encode())
    assert found == value and json.dumps(found) == json.dumps(value)


BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
MERGES = "a0: &a0 {k: v}\n" + "".join(f"a{n}: &a{n} {{l: *a{n - 1}, m: *a{n - 1}}}\n" for n in range(1, 40))


@pytest.mark.parametrize(
    "text, complaint",
    [
        pytest.param(BOMB, "expected at most 2000000 values, counting what aliases stand for", id="an alias bomb"),
        pytest.param(MERGES, "expected at most 2000000 values", id="an alias bomb of mappings"),
        pytest.param("a: &a [*a]", "line 1, column 8: the alias *a is part of the value it stands for", id="itself"),
        pytest.param("&a {k: {<<: *a}}", "the alias *a is part of the value it stands for", id="a merge of itself"),
        pytest.param("a: *b", "line 1, column 4: the alias *b is not defined", id="an alias of nothing"),
        pytest.param(
            "[" * 3000 + "]" * 3000,
            f"line 1, column {DEEPEST + 1}: expected at most {DEEPEST} levels of nesting",
            id="lists in lists",
        ),
        pytest.param("{a: " * 3000 + "}" * 3000, f"expected at most {DEEPEST} levels", id="mappings in mappings"),
        pytest.param("- " * 3000 + "x", f"expected at most {DEEPEST} levels", id="lists of dashes"),
        pytest.param("[" * 1_000_000, f"expected at most {DEEPEST} levels", id="a million brackets"),
        pytest.param(
            f"[&a {'[' * 60}{']' * 60}, {'[' * 60}*a{']' * 60}]",
            f"expected at most {DEEPEST} levels",
            id="depth by an alias",
        ),
        pytest.param("a: 1\nb: 2\na: 3", 'line 3, column 1: duplicate key "a"', id="a key twice"),
        pytest.param("{1: a, '1': b}", 'duplicate key "1"', id="keys that become one text"),
        pytest.param("[&x {}, {<<: *x, <<: *x}]", 'duplicate key "<<"', id="two merges"),
        pytest.param("{[1]: a}", "line 1, column 2: expected text as key, got a list or a mapping", id="a list as key"),
        pytest.param("[&x [1], {*x : a}]", "expected text as key", id="an alias of a list as key"),
        pytest.param(
            "{<<: 1}", "line 1, column 6: expected a mapping or a list of mappings to merge", id="a merge of 1"
        ),
        pytest.param(
            "a: 18446744073709551616",
            "line 1, column 4: expected a number of at most 64 bits; put text in quotes",
            id="65 bits",
        ),
        pytest.param(f"a: {'9' * 100_000}", "expected a number of at most 64 bits", id="100,000 digits"),
        pytest.param("a: 1e999", "expected a number that JSON can hold; put text in quotes", id="a float out of range"),
        pytest.param("a: .inf", "expected a number that JSON can hold", id="infinity"),
        pytest.param(
            "a: !!python/object/apply:os.system [id]",
            "the tag !!python/object/apply:os.system is not supported",
            id="a tag that would run code",
        ),
        pytest.param("a: !!binary aGk=", "expected a value of the tag !!binary", id="binary data"),
        pytest.param("a: !!int x", "expected a value of the tag !!int", id="a tag its value contradicts"),
        pytest.param("a:\n\t- b", "line 2, column 1: found character that cannot start any token", id="a tab"),
        pytest.param("a: b\0c", "expected YAML in UTF-8: ", id="a NUL byte"),
        pytest.param(b"a: \xff\xfe", "expected YAML in UTF-8: ", id="bytes that are no UTF-8"),
        pytest.param(
            "a: 1\n---\nb: 2",
            "line 2, column 1: expected a single document in the stream but found another document",
            id="two documents",
        ),
        pytest.param("a: [", "line 2, column 1: did not find expected node content", id="a bracket that never closes"),
    ],
)
def test_what_cannot_be_read_is_refused_with_one_line_that_says_where(text, complaint):
    with pytest.raises(InvalidYaml) as raised:
        read_yaml(text if isinstance(text, bytes) else text.encode())
    assert complaint in str(raised.value)
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 200


def test_a_file_is_read_no_further_than_its_largest_size(monkeypatch):
    monkeypatch.setattr(yaml_documents, "LARGEST_TEXT", 2**20)
    file = io.BytesIO(b"#" * 2**22)
    with pytest.raises(InvalidYaml, match="expected at most 1 MiB"):
        read_yaml(file)
    assert file.tell() == 2**20 + 1


def test_documents_are_read_one_by_one_and_share_no_anchors():
    with pytest.raises(InvalidYaml, match=r"the alias \*x is not defined"):
        read_yaml_documents("a: &x 1\n---\nb: *x")
    assert read_yaml_documents("a: &x 1\n---\nb: &x 2\n---\n") == [{"a": 1}, {"b": 2}, None]


def test_no_value_stands_in_an_error_because_it_may_be_secret():
    with pytest.raises(InvalidYaml) as raised:
        read_yaml("users: [{user: {token: 123456789012345678901234567890}}]")
    assert "12345" not in str(raised.value)


class Quoting(yaml.SafeDumper):
    """Writes every text in quotes."""


Quoting.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(JSON_VALUES)
def test_what_a_yaml_writer_writes_is_read_as_it_was(value):
    """Texts in quotes: without them a writer of YAML 1.1 may write one that is a number for Kubernetes, such as 0E0."""
    assert read_yaml(yaml.dump(value, Dumper=Quoting)) == value


@given(st.text(alphabet="[]{}:,&*<-? !\"'|>%#a1\n\t\0"))
def test_any_text_is_a_value_or_one_error(text):
    try:
        json.dumps(read_yaml(text))
    except InvalidYaml as error:
        assert "\n" not in str(error)
