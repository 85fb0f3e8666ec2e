"""Reading a YAML file field by field; every complaint names the file, the path in it and what was expected."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Any

import yaml


class InvalidKubeconfig(Exception):
    """The user's mistake in a kubeconfig, a file it names, or the choice of one."""

    def __init__(self, file: str, path: str, expected: str) -> None:
        super().__init__(": ".join(part for part in (file, path, expected) if part))
        self.file, self.path, self.expected = file, path, expected


class Section:
    """A mapping inside a file. A field that is missing or null counts as empty."""

    def __init__(self, file: Path, path: str, value: object) -> None:
        if not isinstance(value, dict):
            raise InvalidKubeconfig(str(file), path, f"expected a mapping, got {_describe(value)}")
        self.file, self.path = file, path
        self._fields: dict[str, Any] = value

    def __contains__(self, name: str) -> bool:
        return self._fields.get(name) is not None

    def refusal(self, name: str, expected: str) -> InvalidKubeconfig:
        return InvalidKubeconfig(str(self.file), self._path_of(name), expected)

    def text(self, name: str) -> str:
        value = self._fields.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.refusal(name, f"expected a string, got {_describe(value)}")
        return value

    def raw(self, name: str) -> object:
        """A field of any shape, as it stands."""
        return self._fields.get(name)

    def required_text(self, name: str) -> str:
        if not (value := self.text(name)):
            raise self.refusal(name, "expected a string, got nothing")
        return value

    def flag(self, name: str) -> bool:
        value = self._fields.get(name)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.refusal(name, f"expected true or false, got {_describe(value)}")
        return value

    def section(self, name: str) -> Section:
        return Section(self.file, self._path_of(name), self._fields.get(name, {}) or {})

    def sections(self, name: str) -> list[Section]:
        return [Section(self.file, path, value) for path, value in self._list(name)]

    def texts(self, name: str) -> tuple[str, ...]:
        found = self._list(name)
        for path, value in found:
            if not isinstance(value, str):
                raise InvalidKubeconfig(str(self.file), path, f"expected a string, got {_describe(value)}")
        return tuple(value for _, value in found)

    def file_named(self, name: str) -> Path | None:
        """The file a field names; a relative path is relative to the file it stands in."""
        text = self.text(name)
        return (self.file.parent / text) if text else None

    def content(self, name: str) -> bytes:
        """What `name`-data holds in base64, else what the file in `name` holds; empty when neither is given."""
        if encoded := self.text(f"{name}-data"):
            return self._decoded(f"{name}-data", encoded)
        if (file := self.file_named(name)) is None:
            return b""
        try:
            return file.read_bytes()
        except OSError as error:
            raise self.refusal(name, f"expected a readable file, but {file}: {error.strerror}") from error

    def _decoded(self, name: str, encoded: str) -> bytes:
        try:
            return base64.b64decode("".join(encoded.split()), validate=True)
        except binascii.Error as error:
            raise self.refusal(name, f"expected base64: {error}") from error

    def _list(self, name: str) -> list[tuple[str, Any]]:
        value = self._fields.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.refusal(name, f"expected a list, got {_describe(value)}")
        return [(f"{self._path_of(name)}[{index}]", item) for index, item in enumerate(value)]

    def _path_of(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name


def read(file: Path) -> Section:
    """The file's one document; an empty file is an empty mapping."""
    return Section(file, "", load_yaml(file) or {})


def load_yaml(file: Path) -> object:
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidKubeconfig(str(file), "", f"expected a readable file: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidKubeconfig(str(file), "", "expected YAML in UTF-8") from error
    return _parse(file, text)


def _parse(file: Path, text: str) -> object:
    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        where = f"line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise InvalidKubeconfig(str(file), where, f"expected YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise InvalidKubeconfig(str(file), "", f"expected YAML: {error}") from error


def _describe(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case str():
            return f"the string {value[:40]!r}"
        case _:
            return f"{value}"[:40]
