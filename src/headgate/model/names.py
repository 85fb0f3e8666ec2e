"""Which names Kubernetes allows. Each check returns what is wrong in an API server's words, or nothing."""

from __future__ import annotations

import re

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_NAME})?"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"

_is_label = re.compile(_LABEL).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_name = re.compile(_NAME).fullmatch
_is_value = re.compile(_VALUE).fullmatch
_is_config_key = re.compile(_CONFIG_KEY).fullmatch

_ENDS = "and must start and end with an alphanumeric character"
_WRONG_LABEL = (
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ENDS} "
    f"(e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_WRONG_SUBDOMAIN = (
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ENDS} "
    f"(e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_WRONG_NAME = (
    f"must consist of alphanumeric characters, '-', '_' or '.', {_ENDS} "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME}')"
)
_WRONG_VALUE = (
    f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_ENDS} "
    f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_VALUE}')"
)
_WRONG_CONFIG_KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    f"(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '{_CONFIG_KEY}')"
)
_WITH_PREFIX = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"


def dns_label_errors(text: str) -> tuple[str, ...]:
    """A DNS-1123 label, such as the name of a namespace or container."""
    errors = _too_long(text, 63, "characters")
    if _is_label(text):
        return errors
    return (*errors, "must not contain dots" if _is_subdomain(text) else _WRONG_LABEL)


def dns_subdomain_errors(text: str) -> tuple[str, ...]:
    """A DNS-1123 subdomain, such as the name of a pod or node."""
    return _subdomain_errors(text, "characters")


def qualified_name_errors(text: str) -> tuple[str, ...]:
    """A name with an optional subdomain and '/' before it, such as a label key, a gate or a resource."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return (f"a valid label key {_WRONG_NAME} {_WITH_PREFIX}",)
    return (*(_prefix_errors(prefix) if slash else ()), *_name_errors(name))


def label_value_errors(text: str) -> tuple[str, ...]:
    return (*_too_long(text, 63, "bytes"), *(() if _is_value(text) else (_WRONG_VALUE,)))


def _prefix_errors(prefix: str) -> tuple[str, ...]:
    if not prefix:
        return ("prefix part must be non-empty",)
    return tuple(f"prefix part {error}" for error in _subdomain_errors(prefix, "bytes"))


def _name_errors(name: str) -> tuple[str, ...]:
    if _is_name(name) and len(name) <= 63:
        return ()
    length = ("must be non-empty",) if not name else _too_long(name, 63, "bytes")
    shape = () if _is_name(name) else (_WRONG_NAME,)
    return tuple(f"name part {error}" for error in (*length, *shape))


def _subdomain_errors(text: str, unit: str) -> tuple[str, ...]:
    return (*_too_long(text, 253, unit), *(() if _is_subdomain(text) else (_WRONG_SUBDOMAIN,)))


def _too_long(text: str, most: int, unit: str) -> tuple[str, ...]:
    """Bytes are counted. A server calls them characters where a whole name is checked and bytes within a label."""
    return (f"must be no more than {most} {unit}",) if len(text.encode()) > most else ()


def config_key_errors(text: str) -> tuple[str, ...]:
    """A key of a ConfigMap or Secret, which may become the name of a file."""
    errors = (*_too_long(text, 253, "characters"), *(() if _is_config_key(text) else (_WRONG_CONFIG_KEY,)))
    if text in (".", ".."):
        return (*errors, f"must not be '{text}'")
    return (*errors, "must not start with '..'") if text.startswith("..") else errors
