"""Every law over very many random histories and hostile objects: `make nightly`.

A history is one seed of one law. What breaks is told with the command that shows it again; the exit code says whether
anything did. Ctrl-C ends the run and tells what was looked at so far.

    python tests/nightly.py                            everything, for a night
    python tests/nightly.py --suite holds --minutes 5  one suite, for five minutes
    python tests/nightly.py --law LAW --first 17 --count 1
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

TESTS = Path(__file__).resolve().parent
sys.path[:0] = [str(TESTS), *(str(TESTS / package) for package in ("engine", "quota", "hostile", "simulator"))]
import fleet_laws  # noqa: E402
import fleet_run_laws  # noqa: E402
import histories  # noqa: E402
import hold_laws  # noqa: E402
import hostile_laws  # noqa: E402
import hostile_requests  # noqa: E402
import queue_laws  # noqa: E402
import quota_laws  # noqa: E402
import quota_rest_laws  # noqa: E402

CHUNK = 25  # seeds a worker takes at once


class Suite(NamedTuple):
    """Laws of one kind, and how many histories of all of them together a night looks at."""

    laws: dict[str, Callable[[int], object]]
    histories: int
    objects: Mapping[str, int] = MappingProxyType({})  # of one seed, where it is not one


SUITES = {
    "scheduling": Suite(
        {"decisions_are_those_of_a_fresh_process": histories.decisions_are_those_of_a_fresh_process}, 100_000
    ),
    "queues": Suite(queue_laws.LAWS, 100_000),
    "quota": Suite(quota_laws.LAWS | quota_rest_laws.LAWS, 100_000),
    "holds": Suite(hold_laws.LAWS, 100_000),
    "fleet": Suite(fleet_laws.LAWS | fleet_run_laws.LAWS, 20_000),
    "requests": Suite(hostile_requests.LAWS, 100_000, dict.fromkeys(hostile_requests.LAWS, hostile_requests.DAY)),
    "hostile": Suite(hostile_laws.LAWS, 200_000, {"decided_about": 10, "reread": 3, "told_by_workers": 4}),
}
LAWS = {name: law for suite in SUITES.values() for name, law in suite.laws.items()}


class Piece(NamedTuple):
    """Some seeds of one law, and how many histories or objects they are."""

    law: str
    first: int
    last: int
    count: int


def broken(piece: Piece) -> list[tuple[int, str]]:
    """The seeds of this piece for which the law does not hold, and in what way."""
    found = []
    for seed in range(piece.first, piece.last):
        try:
            LAWS[piece.law](seed)
        except Exception as error:  # whatever it is, it is one of the things looked for
            found.append((seed, f"{type(error).__name__}: {error}"))
    return found


def pieces(suite: Suite, names: list[str], first: int, count: int | None) -> Iterator[Piece]:
    """The laws side by side, so that each is looked at however long the run is."""
    each = -(-(count or suite.histories) // len(names))
    for start in range(0, each, CHUNK):
        for name in names:
            weight = suite.objects.get(name, 1)
            seeds = min(CHUNK, -(-each // weight) - start)
            if seeds > 0:
                yield Piece(name, first + start, first + start + seeds, seeds * weight)


def run(todo: list[Piece], minutes: float | None, whole_story: bool) -> int:
    """Looks at the pieces with all cores, as far as the minutes last; how many seeds broke their law."""
    done, failures, began = 0, 0, time.monotonic()
    total = sum(piece.count for piece in todo)
    with multiprocessing.Pool() as pool, contextlib.suppress(KeyboardInterrupt):
        for piece, found in zip(todo, pool.imap(broken, todo), strict=True):
            done += piece.count
            for seed, what in found:
                failures += 1
                print(f"\n{piece.law}: {what if whole_story else what.splitlines()[0]}")
                print(f"  again: {sys.argv[0]} --law {piece.law} --first {seed} --count 1")
            passed = time.monotonic() - began
            if sys.stdout.isatty():
                print(f"\r  {done} of {total}, {failures} broken, {passed:.0f} s", end="", flush=True)
            if minutes is not None and passed > 60 * minutes:
                break
        pool.terminate()
    print(f"\r  {done} of {total}, {failures} broken, {time.monotonic() - began:.0f} s")
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", choices=sorted(SUITES), help="this one only")
    parser.add_argument("--law", choices=sorted(LAWS), help="this one only")
    parser.add_argument("--first", type=int, default=10_000, help="the first seed (default: %(default)s)")
    parser.add_argument("--count", type=int, help="histories or objects of a suite (default: 100000, 200000)")
    parser.add_argument("--minutes", type=float, help="for each suite (default: as long as it takes)")
    arguments = parser.parse_args()
    failures = 0
    for title, suite in SUITES.items():
        names = [arguments.law] if arguments.law else list(suite.laws)
        if arguments.suite not in (None, title) or not suite.laws.keys() >= set(names):
            continue
        print(f"{title}: {', '.join(names)}")
        todo = list(pieces(suite, names, arguments.first, arguments.count))
        failures += run(todo, arguments.minutes, whole_story=arguments.count == 1)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
