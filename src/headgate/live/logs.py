"""The log on standard error, as text or JSON: journal entries, what the process does, and outages, each logged once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Protocol

import msgspec

from headgate.api.wire import format_micro_time
from headgate.engine.journal import Entry
from headgate.model.keys import Kind

Fields = Mapping[str, object]


class LogLevel(IntEnum):
    DEBUG = 0
    INFO = 1
    WARNING = 2
    ERROR = 3


_COLUMNS = {level: f"{level.name:<7}" for level in LogLevel}
Line = Callable[[float, LogLevel, str, Fields], str]


def text_line(at: float, level: LogLevel, message: str, fields: Fields) -> str:
    """2026-11-15T12:00:00.000000Z INFO message name=value …"""
    said = [f" {name}={value if type(value) is int else _quoted(str(value))}" for name, value in fields.items()]
    return f"{format_micro_time(at)} {_COLUMNS[level]} {message}{''.join(said)}\n"


def json_line(at: float, level: LogLevel, message: str, fields: Fields) -> str:
    line = {"time": format_micro_time(at), "level": level.name.lower(), "message": message, **fields}
    return msgspec.json.encode(line).decode() + "\n"


IN_EVERY_LINE = frozenset({"time", "level", "message"})
FORMATS: Mapping[str, Line] = {"text": text_line, "json": json_line}


class LogStream(Protocol):
    """Where lines are written."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...


class ReadProgress(Protocol):
    """Is told of what is read while a cluster is read for the first time, and when that is over."""

    def read(self, kind: Kind, count: int) -> None: ...

    def done(self) -> None: ...


class Unwatched:
    """Nobody looks on."""

    def read(self, kind: Kind, count: int) -> None:
        pass

    def done(self) -> None:
        pass


class Log:
    """Writes lines at or above a level. `wall` gives the time of what the process itself says."""

    def __init__(self, out: LogStream, line: Line, level: LogLevel, wall: Callable[[], float]) -> None:
        self._out, self._line, self._level, self._wall = out, line, level, wall

    def info(self, message: str, **fields: object) -> None:
        self._say(LogLevel.INFO, message, fields)

    def warning(self, message: str, **fields: object) -> None:
        self._say(LogLevel.WARNING, message, fields)

    def error(self, message: str, **fields: object) -> None:
        self._say(LogLevel.ERROR, message, fields)

    def entries(self, entries: Iterable[Entry]) -> None:
        """The journal's entries, in one write."""
        if self._level <= LogLevel.INFO:
            line, level = self._line, LogLevel.INFO
            self._write("".join([line(entry.at, level, entry.decision, _fields(entry)) for entry in entries]))

    def _say(self, level: LogLevel, message: str, fields: Fields) -> None:
        if level >= self._level:
            self._write(self._line(self._wall(), level, message, fields))

    def _write(self, text: str) -> None:
        if text:
            self._out.write(text)
            self._out.flush()


class Outages:
    """Logs an outage once when it begins and once when it ends, however many tasks it affects."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._affected: dict[str, dict[str, None]] = {}

    def failing(self, what: str, who: str, why: str) -> None:
        """The task `who` is blocked because `what` fails."""
        known = self._affected.setdefault(what, {})
        if not known:
            self._log.warning(f"{what}: {why}; retrying")
        known[who] = None

    def recovered(self, who: str) -> None:
        """The task `who` is no longer blocked."""
        for what in self._ended_with(who):
            self._log.info(f"{what}: recovered")

    def dropped(self, who: str) -> None:
        """The task `who` has ended; no recovery is logged for it."""
        self._ended_with(who)

    def _ended_with(self, who: str) -> list[str]:
        """The outages that affected only `who`."""
        freed = [what for what, known in self._affected.items() if list(known) == [who]]
        for known in self._affected.values():
            known.pop(who, None)
        for what in freed:
            del self._affected[what]
        return freed


def _fields(entry: Entry) -> dict[str, object]:
    """Numbers never hide what every line has."""
    fields: dict[str, object] = {"object": str(entry.key), "reason": entry.reason}
    if entry.message:
        fields["detail"] = entry.message
    for name, number in entry.numbers.items():
        if name not in fields and name not in IN_EVERY_LINE:
            fields[name] = number
    return fields


def _quoted(text: str) -> str:
    is_plain = text and " " not in text and '"' not in text and "=" not in text and text.isprintable()
    return text if is_plain else msgspec.json.encode(text).decode()
