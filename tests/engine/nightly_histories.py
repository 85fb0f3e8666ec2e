"""Very many random histories against the law of a fresh process: part of `make nightly`.

A history that breaks the law is told with the command that shows it again; the exit code says whether any did.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from histories import decisions_are_those_of_a_fresh_process  # noqa: E402

CHUNK = 100  # seeds a worker takes at once


def broken(first: int, last: int) -> list[tuple[int, str]]:
    """The seeds from the first up to the last for which the law does not hold, and in what way."""
    found = []
    for seed in range(first, last):
        try:
            decisions_are_those_of_a_fresh_process(seed)
        except Exception as trouble:  # whatever it is, it is one of the things looked for
            found.append((seed, f"{type(trouble).__name__}: {trouble}"))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=100_000, help="in all (default: %(default)s)")
    parser.add_argument("--first", type=int, default=1000, help="the first seed (default: %(default)s)")
    arguments = parser.parse_args()
    end = arguments.first + arguments.histories
    pieces = [(first, min(first + CHUNK, end)) for first in range(arguments.first, end, CHUNK)]
    done, failures, began = 0, 0, time.monotonic()
    with multiprocessing.Pool() as pool:
        for (first, last), found in zip(pieces, pool.starmap(broken, pieces, chunksize=1), strict=True):
            done += last - first
            for seed, what in found:
                failures += 1
                shown = what if arguments.histories == 1 else what.splitlines()[0]
                print(f"{shown}\n  again: {sys.argv[0]} --first {seed} --histories 1")
    print(f"{done} histories, {failures} broken, {time.monotonic() - began:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
