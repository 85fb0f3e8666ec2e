"""How a malformed object is named: which one, which field, what was expected there."""

from __future__ import annotations

import msgspec

from headgate.model.keys import Key, Kind

LONGEST_SAID = 1000  # characters of a path, and of what was expected there


class InvalidObject(Exception):
    """An object that does not conform to its kind. `path` begins at the object (`$.spec.…`); `key` if known."""

    def __init__(self, kind: Kind, key: Key | None, path: str, expected: str) -> None:
        path, expected = _bounded(path), _bounded(expected)
        super().__init__(f"{key or kind}: {path}: {expected}")
        self.kind, self.key, self.path, self.expected = kind, key, path, expected


class Undecodable(InvalidObject):
    """An object that our own code could not deal with, which is our mistake."""


class InvalidField(ValueError):
    """A field whose type is right and whose content is not; becomes an InvalidObject once the object is known."""

    def __init__(self, path: str, expected: str) -> None:
        super().__init__(f"{path}: {expected}")
        self.path, self.expected = path, expected


def _bounded(text: str) -> str:
    """What is quoted may be as long as an object is."""
    return text if len(text) <= LONGEST_SAID else f"{text[:LONGEST_SAID]}..."


def invalid_field(error: msgspec.DecodeError) -> InvalidField:
    """What msgspec says, with the path taken apart from the sentence."""
    sentence, _, path = str(error).partition(" - at `")
    return InvalidField(path.rstrip("`") or "$", sentence.replace("`", ""))
