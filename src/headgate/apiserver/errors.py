"""How the small Kubernetes says no: field errors and API errors, worded as a real API server words them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct


class Complaint(StrEnum):
    """What is wrong with a field; the value is how a real server begins the sentence."""

    REQUIRED = "Required value"
    INVALID = "Invalid value"
    DUPLICATE = "Duplicate value"
    FORBIDDEN = "Forbidden"
    NOT_SUPPORTED = "Unsupported value"
    TOO_LONG = "Too long"
    TOO_MANY = "Too many"


class FieldError(Struct, frozen=True):
    """One thing wrong with one field. `value` is shown unless the complaint is Required, Forbidden or Too long.

    `wrong_type`: the value is not even of the kind that the schema of a custom resource declares.
    """

    path: str
    complaint: Complaint
    detail: str = ""
    value: Any = None
    wrong_type: bool = False


class ApiError(Exception):
    """A request that is answered with a Status object instead of success; nothing was changed."""

    def __init__(self, code: int, reason: str, message: str, causes: Sequence[FieldError] = ()) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.causes = code, reason, message, tuple(causes)
