"""String formats a schema may name. Formats that are not here are not checked, as on a real server."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime

from headgate.model.names import dns_label_errors, dns_subdomain_errors

_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)").fullmatch
_FRACTION = re.compile(r"\.\d+")
_DATE = re.compile(r"\d{4}-\d\d-\d\d").fullmatch
_DURATION = re.compile(r"[-+]?(0|(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h|d|w)([0-9.]+(ns|us|µs|ms|s|m|h))*)").fullmatch
_UUID = re.compile(r"[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}").fullmatch
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+").fullmatch
_URI = re.compile(r"(/|[A-Za-z][A-Za-z0-9+.-]*:).*").fullmatch


def _accepts(parse: Callable[[str], object]) -> Callable[[str], bool]:
    """Whether the text can be parsed."""

    def check(text: str) -> bool:
        try:
            parse(text)
        except (ValueError, binascii.Error):
            return False
        return True

    return check


def _date_time(text: str) -> object:
    if not _DATE_TIME(text):
        raise ValueError(text)
    return datetime.fromisoformat(_FRACTION.sub("", text).upper())


def _date(text: str) -> object:
    if not _DATE(text):
        raise ValueError(text)
    return date.fromisoformat(text)


def _byte(text: str) -> object:
    return base64.b64decode(text, validate=True)


def _cidr(text: str) -> object:
    if "/" not in text:
        raise ValueError(text)
    return ipaddress.ip_network(text, strict=False)


FORMATS: Mapping[str, Callable[[str], bool]] = {
    "date-time": _accepts(_date_time),
    "datetime": _accepts(_date_time),
    "date": _accepts(_date),
    "duration": lambda text: _DURATION(text) is not None,
    "byte": _accepts(_byte),
    "ipv4": _accepts(ipaddress.IPv4Address),
    "ipv6": _accepts(ipaddress.IPv6Address),
    "cidr": _accepts(_cidr),
    "uuid": lambda text: _UUID(text) is not None,
    "email": lambda text: _EMAIL(text) is not None,
    "uri": lambda text: _URI(text) is not None,
    "k8s-short-name": lambda text: not dns_label_errors(text),
    "k8s-long-name": lambda text: not dns_subdomain_errors(text),
}
