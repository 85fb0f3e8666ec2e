"""What is answered to an API server that asks whether an object may be created."""

from __future__ import annotations

from msgspec import Struct


class Admit(Struct, frozen=True):
    """It may; with a `priority_class`, once that is filled in."""

    priority_class: str = ""


class Refuse(Struct, frozen=True):
    """It may not, and why."""

    message: str


Verdict = Admit | Refuse
