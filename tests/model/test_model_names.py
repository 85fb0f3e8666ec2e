"""Names in an API server's words."""

from __future__ import annotations

import pytest

from headgate.model.names import dns_label_errors, dns_subdomain_errors, label_value_errors, qualified_name_errors

ENDS = "and must start and end with an alphanumeric character"
LABEL = (
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {ENDS} "
    "(e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {ENDS} "
    "(e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
NAME = (
    f"must consist of alphanumeric characters, '-', '_' or '.', {ENDS} (e.g. 'MyName',  or 'my.name',  or '123-abc', "
    "regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE = (
    f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {ENDS} "
    "(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@pytest.mark.parametrize(
    "text, errors",
    [
        pytest.param("my-pool-1", (), id="lower case, digits and dashes are fine"),
        pytest.param("a" * 63, (), id="63 bytes are fine"),
        pytest.param("a" * 64, ("must be no more than 63 characters",), id="64 bytes are too many"),
        pytest.param("a.b", ("must not contain dots",), id="a dot is named as such"),
        pytest.param("", (LABEL,), id="it cannot be empty"),
        pytest.param("A", (LABEL,), id="no capitals"),
        pytest.param("-a", (LABEL,), id="no dash in front"),
        pytest.param("a\n", (LABEL,), id="no newline at the end"),
    ],
)
def test_dns_label(text, errors):
    assert dns_label_errors(text) == errors


@pytest.mark.parametrize(
    "text, errors",
    [
        pytest.param("node-1.example.com", (), id="labels joined by dots are fine"),
        pytest.param("a" * 254, ("must be no more than 253 characters",), id="254 bytes are too many"),
        pytest.param("a..b", (SUBDOMAIN,), id="no empty label"),
        pytest.param("a_b", (SUBDOMAIN,), id="no underscore"),
    ],
)
def test_dns_subdomain(text, errors):
    assert dns_subdomain_errors(text) == errors


@pytest.mark.parametrize(
    "text, errors",
    [
        pytest.param("app", (), id="a bare name is fine"),
        pytest.param("example.com/My_Gate.1", (), id="a prefix is fine"),
        pytest.param("", ("name part must be non-empty", f"name part {NAME}"), id="it cannot be empty"),
        pytest.param("example.com/", ("name part must be non-empty", f"name part {NAME}"), id="a prefix needs a name"),
        pytest.param("/a", ("prefix part must be non-empty",), id="a slash needs a prefix"),
        pytest.param("Example/a", (f"prefix part {SUBDOMAIN}",), id="the prefix is a subdomain"),
        pytest.param(
            "p" * 254 + "/a", ("prefix part must be no more than 253 bytes",), id="a prefix of 253 bytes at most"
        ),
        pytest.param("a b", (f"name part {NAME}",), id="no spaces"),
        pytest.param("x" * 64, ("name part must be no more than 63 bytes",), id="the name has 63 bytes at most"),
        pytest.param(
            "a/b/c",
            (f"a valid label key {NAME} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",),
            id="one slash at most",
        ),
    ],
)
def test_qualified_name(text, errors):
    assert qualified_name_errors(text) == errors


@pytest.mark.parametrize(
    "text, errors",
    [
        pytest.param("", (), id="it may be empty"),
        pytest.param("My_Value-1.0", (), id="letters, digits, dashes, dots and underscores are fine"),
        pytest.param("v" * 64, ("must be no more than 63 bytes",), id="64 bytes are too many"),
        pytest.param("a/b", (VALUE,), id="no slash"),
        pytest.param("ends-", (VALUE,), id="no dash at the end"),
    ],
)
def test_label_value(text, errors):
    assert label_value_errors(text) == errors
