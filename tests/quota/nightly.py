"""Every law of quota over very many random histories: `make nightly`.

A history is one seed of one law. What breaks is told with the command that shows it again; the exit code says whether
anything did.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "engine"))
import quota_laws
import quota_rest_laws

LAWS = quota_laws.LAWS | quota_rest_laws.LAWS

CHUNK = 100  # seeds a worker takes at once
Piece = tuple[str, int, int]


def broken(piece: Piece) -> list[tuple[str, int, str]]:
    """The seeds of this piece for which the law does not hold, and in what way."""
    name, first, last = piece
    found = []
    for seed in range(first, last):
        try:
            LAWS[name](seed)
        except Exception as trouble:  # whatever it is, it is one of the things looked for
            found.append((name, seed, f"{type(trouble).__name__}: {trouble}".splitlines()[0]))
    return found


def pieces(names: list[str], first: int, histories: int) -> list[Piece]:
    """All laws side by side, so that whatever time there is looks at each."""
    each = -(-histories // len(names))
    starts = range(first, first + each, CHUNK)
    return [(name, start, min(start + CHUNK, first + each)) for start in starts for name in names]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=100_000, help="in all, over all laws (default: %(default)s)")
    parser.add_argument("--first", type=int, default=1000, help="the first seed (default: %(default)s)")
    parser.add_argument("--law", choices=sorted(LAWS), help="this one only")
    arguments = parser.parse_args()
    todo = pieces([arguments.law] if arguments.law else list(LAWS), arguments.first, arguments.histories)
    total, done, failures, began = sum(last - start for _, start, last in todo), 0, 0, time.monotonic()
    with multiprocessing.Pool() as pool:
        for (_, start, last), found in zip(todo, pool.imap(broken, todo), strict=True):
            done += last - start
            for name, seed, what in found:
                failures += 1
                print(f"\n{name}: {what}\n  again: {sys.argv[0]} --law {name} --first {seed} --histories 1")
            print(f"\r{done} of {total} histories, {failures} broken, {time.monotonic() - began:.0f} s", end="")
    print()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
