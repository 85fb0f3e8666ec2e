"""Every law of holds over very many random histories: `make nightly`.

A history is one seed of one law. What breaks is told with the command that shows it again; the exit code says whether
anything did.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from hold_laws import LAWS

CHUNK = 50  # seeds a worker takes at once


def broken(piece: tuple[str, int, int]) -> list[tuple[str, int, str]]:
    """The seeds of this piece for which the law does not hold, and in what way."""
    name, first, last = piece
    found = []
    for seed in range(first, last):
        try:
            LAWS[name](seed)
        except Exception as trouble:  # whatever it is, it is one of the things looked for
            found.append((name, seed, f"{type(trouble).__name__}: {trouble}".splitlines()[0]))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=100_000, help="in all, over all laws (default: %(default)s)")
    parser.add_argument("--first", type=int, default=1000, help="the first seed (default: %(default)s)")
    parser.add_argument("--law", choices=sorted(LAWS), help="this one only")
    arguments = parser.parse_args()
    names = [arguments.law] if arguments.law else list(LAWS)
    last = arguments.first + -(-arguments.histories // len(names))
    starts = range(arguments.first, last, CHUNK)
    todo = [(name, start, min(start + CHUNK, last)) for start in starts for name in names]
    failures = 0
    with multiprocessing.Pool() as pool:
        for name, seed, what in (each for found in pool.imap(broken, todo) for each in found):
            failures += 1
            print(f"{name}: {what}\n  again: {sys.argv[0]} --law {name} --first {seed} --histories 1")
    print(f"{(last - arguments.first) * len(names)} histories of holds, {failures} broken")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
