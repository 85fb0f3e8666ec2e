"""What of an API server outlives its process: objects, recent changes and credentials, in a directory.

Changes are committed to SQLite many at a time. A write is acknowledged, and anything of it shown, when it is committed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from headgate.apiserver.server import ApiServer
from headgate.apiserver.storage import Change, SavedChange, SavedRevision, SavedState
from headgate.live.api_credentials import Administrator

FORMAT = 1
KEPT = 10_000  # changes, with which watches resume after a restart
DATABASE, CREDENTIALS = "objects.sqlite", "credentials.json"
TABLES = """
CREATE TABLE IF NOT EXISTS objects (
    grp TEXT, plural TEXT, namespace TEXT, name TEXT, version INTEGER, value BLOB,
    PRIMARY KEY (grp, plural, namespace, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS changes (
    version INTEGER PRIMARY KEY, type TEXT, grp TEXT, plural TEXT, namespace TEXT, name TEXT, value BLOB,
    before_version INTEGER, before BLOB
);
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value INTEGER);
"""

Row = tuple[Any, ...]


class InvalidDataDir(Exception):
    """The directory cannot be used; the text names it and says why."""


class CannotSave(Exception):
    """What was written can no longer be saved, so nothing more may be acknowledged."""


class DataDir:
    """One server's directory, which only one process uses at a time."""

    def __init__(self, folder: Path) -> None:
        """Raises InvalidDataDir."""
        self._folder = folder
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):  # ours alone, whatever the umask is
                os.close(os.open(folder / DATABASE, os.O_CREAT | os.O_EXCL, 0o600))
            self._database = sqlite3.connect(
                folder / DATABASE, timeout=0, isolation_level=None, check_same_thread=False
            )
            self._open()
        except (OSError, sqlite3.Error) as error:
            why = "another process uses it" if "locked" in str(error) else str(error)
            raise InvalidDataDir(f"--data-dir: {folder} cannot be used: {why}") from error

    def _open(self) -> None:
        for statement in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL"):
            self._database.execute(f"PRAGMA {statement}")
        self._database.executescript(TABLES)
        self._database.execute("BEGIN EXCLUSIVE")  # takes the lock, which is then kept
        known = self._fact("format", FORMAT)
        self._database.execute("INSERT OR REPLACE INTO facts VALUES ('format', ?)", (known,))
        self._database.execute("COMMIT")
        if known != FORMAT:
            raise sqlite3.Error(f"expected format {FORMAT}, got {known}")

    def _fact(self, name: str, otherwise: int) -> int:
        found = self._database.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return otherwise if found is None else int(found[0])

    def load(self) -> SavedState:
        objects = self._database.execute("SELECT grp, plural, namespace, name, version, value FROM objects")
        changes = self._database.execute("SELECT * FROM changes ORDER BY version")
        return SavedState(
            self._fact("version", 0),
            self._fact("compacted", 0),
            [
                SavedChange("", group, plural, namespace, name, SavedRevision(version, value))
                for group, plural, namespace, name, version, value in objects
            ],
            [_change(row) for row in changes],
        )

    def save(self, objects: Sequence[Row], removed: Sequence[Row], changes: Sequence[Row]) -> None:
        """All of it or nothing. Raises sqlite3.Error."""
        last, database = changes[-1][0], self._database
        database.execute("BEGIN")
        try:
            database.executemany("DELETE FROM objects WHERE (grp, plural, namespace, name) = (?, ?, ?, ?)", removed)
            database.executemany("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?, ?)", objects)
            database.executemany("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", changes)
            database.execute("INSERT OR REPLACE INTO facts VALUES ('version', ?)", (last,))
            if last % 1024 < len(changes):  # now and then
                self._compact()
            database.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                database.execute("ROLLBACK")
            raise

    def _compact(self) -> None:
        newest = "SELECT version FROM changes ORDER BY version DESC LIMIT 1 OFFSET ?"
        found = self._database.execute(newest, (KEPT,)).fetchone()
        if found is not None:
            self._database.execute("DELETE FROM changes WHERE version <= ?", found)
            self._database.execute("INSERT OR REPLACE INTO facts VALUES ('compacted', ?)", found)

    def administrator(self, made: Administrator, is_good: Callable[[Administrator], bool]) -> Administrator:
        """Whose credentials are kept, so that kubeconfigs stay good; the new ones where there are no good ones."""
        file = self._folder / CREDENTIALS
        try:
            kept = msgspec.json.decode(file.read_bytes(), type=Administrator)
        except (OSError, msgspec.DecodeError):
            pass
        else:
            if is_good(kept):
                return structs.replace(kept, components=made.components)
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:  # noqa: PTH123
            out.write(msgspec.json.encode(made))
        return made

    def close(self) -> None:
        self._database.close()


def _change(row: Row) -> SavedChange:
    version, kind, group, plural, namespace, name, value, before_version, before = row
    earlier = None if before_version is None else SavedRevision(before_version, before)
    return SavedChange(kind, group, plural, namespace, name, SavedRevision(version, value), earlier)


@contextlib.contextmanager
def opened(folder: Path | None) -> Iterator[DataDir | None]:
    """The directory while the block lasts; None where there is none. Raises InvalidDataDir."""
    data = DataDir(folder) if folder is not None else None
    try:
        yield data
    finally:
        if data is not None:
            data.close()


class GroupCommit:
    """Saves the changes of a server while it is `run`. Whoever waits for a commit waits together with all that came
    meanwhile; `inform` is called after each.
    """

    def __init__(self, server: ApiServer, data: DataDir) -> None:
        self._server, self._data = server, data
        self.inform: Callable[[], None] = _nobody
        self._saved = 0  # the version up to which all is committed
        self._thread = ThreadPoolExecutor(1, "data-dir")
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._news = asyncio.Event()

    async def committed(self) -> None:
        """Returns when all that the server has written by now is committed."""
        version = self._server.version
        if version <= self._saved:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((version, done))
        self._news.set()
        await done

    async def run(self) -> None:
        """Goes on until cancelled. Raises CannotSave."""
        while True:
            await self.commit()
            await self._news.wait()
            self._news.clear()

    async def commit(self) -> None:
        """Commits what is not saved yet."""
        version = self._server.version
        if changes := self._server.take_unsaved():
            rows, loop = _rows(changes), asyncio.get_running_loop()
            try:
                await asyncio.shield(loop.run_in_executor(self._thread, self._data.save, *rows))
            except sqlite3.Error as error:
                raise CannotSave(f"--data-dir: what was written cannot be saved: {error}") from error
        self._saved = version
        waiting, self._waiting = self._waiting, []
        for wanted, done in waiting:
            if wanted > version:
                self._waiting.append((wanted, done))
            elif not done.done():
                done.set_result(None)
        self.inform()

    def close(self) -> None:
        """Saves the rest. Raises CannotSave."""
        self._thread.shutdown()
        if changes := self._server.take_unsaved():
            try:
                self._data.save(*_rows(changes))
            except sqlite3.Error as error:
                raise CannotSave(f"--data-dir: what was written cannot be saved: {error}") from error


def _nobody() -> None:
    """Is informed."""


def _rows(changes: Sequence[Change]) -> tuple[Sequence[Row], Sequence[Row], Sequence[Row]]:
    """For each object its last state, or that it is gone; and all changes."""
    objects: dict[Row, Row] = {}
    removed: dict[Row, None] = {}
    rows: list[Row] = []
    for change in changes:
        place = (change.collection.group, change.collection.plural, change.namespace, change.name)
        after, before = change.after, change.before
        if change.type == "DELETED":
            objects.pop(place, None)
            removed[place] = None
        else:
            removed.pop(place, None)
            objects[place] = (*place, after.version, after.raw)
        earlier = (None, None) if before is None else (before.version, before.raw)
        rows.append((after.version, change.type, *place, after.raw, *earlier))
    return list(objects.values()), list(removed), rows
