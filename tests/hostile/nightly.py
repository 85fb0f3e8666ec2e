"""Two hundred thousand hostile objects: `make nightly`.

What breaks is told with the command that shows it again; the exit code says whether anything did.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from hostile_laws import LAWS

CHUNK = 50  # seeds a worker takes at once
OBJECTS = {"decided_about": 10, "answered": 1, "reread": 3}  # of one seed
SHARES = {"decided_about": 0.7, "answered": 0.15, "reread": 0.15}
Piece = tuple[str, int, int]


def broken(piece: Piece) -> list[tuple[str, int, str]]:
    name, first, last = piece
    found = []
    for seed in range(first, last):
        try:
            LAWS[name](seed)
        except Exception as trouble:  # whatever it is, it is one of the things looked for
            found.append((name, seed, f"{type(trouble).__name__}: {trouble}".splitlines()[0]))
    return found


def pieces(names: list[str], first: int, objects: int) -> list[Piece]:
    made = []
    for name in names:
        share = SHARES[name] if len(names) > 1 else 1.0
        last = first + max(1, round(objects * share / OBJECTS[name]))
        made += [(name, start, min(start + CHUNK, last)) for start in range(first, last, CHUNK)]
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=200_000, help="in all, over all laws (default: %(default)s)")
    parser.add_argument("--first", type=int, default=10_000, help="the first seed (default: %(default)s)")
    parser.add_argument("--law", choices=sorted(LAWS), help="this one only")
    arguments = parser.parse_args()
    todo = pieces([arguments.law] if arguments.law else list(LAWS), arguments.first, arguments.objects)
    total = sum((last - start) * OBJECTS[name] for name, start, last in todo)
    done, failures, began = 0, 0, time.monotonic()
    with multiprocessing.Pool() as pool:
        for (piece, start, last), found in zip(todo, pool.imap(broken, todo), strict=True):
            done += (last - start) * OBJECTS[piece]
            for name, seed, what in found:
                failures += 1
                print(f"\n{name}: {what}\n  again: {sys.argv[0]} --law {name} --first {seed} --objects 1")
            print(f"\r{done} of {total} objects, {failures} broken, {time.monotonic() - began:.0f} s", end="")
    print()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
