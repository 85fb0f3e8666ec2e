"""How a pod behaves once it runs, as its annotations say."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

RUN_SECONDS = "headgate.dev/run-seconds"
STOP_SECONDS = "headgate.dev/stop-seconds"
EXIT_CODE = "headgate.dev/exit-code"


class InvalidBehaviour(ValueError):
    """An annotation that says how a pod behaves cannot be read."""

    def __init__(self, annotation: str, expected: str, found: str) -> None:
        super().__init__(f"expected {expected}, got {found!r}")
        self.annotation = annotation


class Behaviour(Struct, frozen=True, gc=False):
    run_seconds: float | None = None  # None: until it is deleted
    stop_seconds: float = 0.0
    exit_code: int = 0


def behaviour_of(annotations: Mapping[str, str]) -> Behaviour:
    """Raises InvalidBehaviour."""
    run, stop, code = (annotations.get(name) for name in (RUN_SECONDS, STOP_SECONDS, EXIT_CODE))
    if run is None and stop is None and code is None:
        return _LASTING
    return Behaviour(
        run_seconds=None if run is None else _seconds(RUN_SECONDS, run),
        stop_seconds=0.0 if stop is None else _seconds(STOP_SECONDS, stop),
        exit_code=0 if code is None else _exit_code(code),
    )


_LASTING = Behaviour()


def _seconds(annotation: str, text: str) -> float:
    expected = "a number of seconds such as 90 or 0.5"
    try:
        seconds = float(text)
    except ValueError:
        raise InvalidBehaviour(annotation, expected, text) from None
    if not 0 <= seconds < float("inf"):
        raise InvalidBehaviour(annotation, expected, text)
    return seconds


def _exit_code(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= 255):
        raise InvalidBehaviour(EXIT_CODE, "an exit code from 0 to 255", text)
    return int(text)
