"""Protobuf bodies, in which kubectl and client-go send objects of built-in kinds: decoded to what JSON would say.

Go writes fields that are not pointers even when they are empty; JSON leaves these out.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from headgate.apiserver.kubernetes_types import numbered_fields, type_of, type_of_options
from headgate.apiserver.messages import Json

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types
LONGEST_VARINT = 70  # bits
MOST_LEVELS = 64
_EMPTY: tuple[Any, ...] = (None, "", 0, False, {}, [], 0.0)


class InvalidProtobuf(ValueError):
    """Not an object in protobuf, or of a kind that has no table."""


def decode_protobuf(body: bytes) -> Json:
    """The object in a body that begins with the magic number. Raises InvalidProtobuf."""
    if not body.startswith(MAGIC):
        raise InvalidProtobuf("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    kind, raw = {}, b""
    for number, value in _fields(body[len(MAGIC) :]):
        if number == 1:
            kind = {place: _text(_bytes(part)) for place, part in _fields(_bytes(value))}
        elif number == 2:
            raw = _bytes(value)
    api_version, name = kind.get(1, ""), kind.get(2, "")
    message = type_of(api_version, name) or type_of_options(name)
    if message is None:
        raise InvalidProtobuf(f'no kind "{name}" is registered for version "{api_version}"')
    return {"apiVersion": api_version, "kind": name, **_decoded(message, raw, 0)}


def _decoded(message: str, data: bytes, level: int) -> Json:
    if level > MOST_LEVELS:
        raise InvalidProtobuf(f"more than {MOST_LEVELS} levels")
    known, found = numbered_fields(message), dict[str, Any]()
    for number, value in _fields(data):
        field = known.get(number)
        if field is None:
            continue
        if field.inline:
            found.update(_value(field.type, value, level))
        elif field.mapped:
            key, part = _entry(field.type, _bytes(value), level)
            found.setdefault(field.name, {})[key] = part
        elif field.repeated:
            found.setdefault(field.name, []).append(_value(field.type, value, level))
        elif (part := _value(field.type, value, level)) not in _EMPTY or (field.pointer and part is not None):
            found[field.name] = part
    return found


def _entry(kind: str, data: bytes, level: int) -> tuple[str, Any]:
    parts = dict(_fields(data))
    return _text(_bytes(parts.get(1, b""))), _value(kind, parts.get(2, b""), level)


def _value(kind: str, value: int | bytes, level: int) -> Any:
    special = _SPECIAL.get(kind)
    return special(value) if special is not None else _decoded(kind, _bytes(value), level + 1)


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise InvalidProtobuf("expected bytes, found a number")
    return value


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise InvalidProtobuf("expected UTF-8") from None


def _number(bits: int) -> Callable[[int | bytes], int]:
    def read(value: int | bytes) -> int:
        if not isinstance(value, int):
            raise InvalidProtobuf("expected a number, found bytes")
        value &= (1 << bits) - 1
        return value - (1 << bits) if value >> (bits - 1) else value

    return read


def _string(value: int | bytes) -> str:
    return _text(_bytes(value))


def _moment(value: int | bytes) -> datetime | None:
    parts = dict(_fields(_bytes(value)))
    seconds, nanos = (_number(64)(parts.get(place, 0)) for place in (1, 2))
    if not parts:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanos // 1000)
    except (ValueError, OverflowError, OSError):
        raise InvalidProtobuf(f"{seconds} is no time") from None


def _time(value: int | bytes) -> str | None:
    moment = _moment(value)
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _micro_time(value: int | bytes) -> str | None:
    moment = _moment(value)
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _duration(value: int | bytes) -> str:
    nanos = _number(64)(dict(_fields(_bytes(value))).get(1, 0))
    return f"{nanos / 1e9:g}s"


def _quantity(value: int | bytes) -> str:
    return _string(dict(_fields(_bytes(value))).get(1, b""))


def _int_or_string(value: int | bytes) -> int | str:
    parts = dict(_fields(_bytes(value)))
    return _string(parts.get(3, b"")) if parts.get(1) == 1 else _number(32)(parts.get(2, 0))


def _raw_json(value: int | bytes) -> Any:
    raw = _bytes(dict(_fields(_bytes(value))).get(1, b""))
    try:
        return msgspec.json.decode(raw) if raw else None
    except msgspec.DecodeError as error:
        raise InvalidProtobuf(f"expected JSON inside: {error}") from None


def _unwritten(_value: int | bytes) -> Any:
    raise InvalidProtobuf("schemas are read from JSON only")


_SPECIAL: Mapping[str, Callable[[int | bytes], Any]] = {
    "string": _string,
    "int32": _number(32),
    "int64": _number(64),
    "uint32": _number(33),
    "uint64": _number(65),
    "bool": lambda value: bool(_number(64)(value)),
    "bytes": lambda value: b64encode(_bytes(value)).decode(),
    "Time": _time,
    "MicroTime": _micro_time,
    "Duration": _duration,
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "RawExtension": _raw_json,
    "FieldsV1": _raw_json,
    "Any": _unwritten,
}


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message as they come: number and value, which is a number or bytes."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            value, place = _varint(data, place)
            yield number, value
            continue
        if wire == BYTES:
            size, place = _varint(data, place)
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
        else:
            raise InvalidProtobuf(f"unknown wire type {wire}")
        if place + size > len(data):
            raise InvalidProtobuf("unexpected end")
        yield number, data[place : place + size]
        place += size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if place >= len(data) or shift >= LONGEST_VARINT:
            raise InvalidProtobuf("unexpected end")
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place
