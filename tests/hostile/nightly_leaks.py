"""Ten thousand families of objects come and go, more than any cache keeps: afterwards no container has grown.

python tests/hostile/nightly_leaks.py [--families 10000]
"""

import argparse
import sys
import time

from families import Life, grown, sizes
from test_no_slow_leak import OF_METRICS

arguments = argparse.ArgumentParser(description=__doc__)
arguments.add_argument("--families", type=int, default=10_000)
half = arguments.parse_args().families // 2
life, began = Life(0), time.monotonic()
life.pass_by(half)
before = sizes(life.engine)
print(f"{half} families in {time.monotonic() - began:.0f} s")
life.pass_by(half)
leaks = {
    path: found
    for path, found in grown(before, sizes(life.engine)).items()
    if not any(part in path for part in OF_METRICS)
}
print(f"{2 * half} families in {time.monotonic() - began:.0f} s; grown: {leaks or 'nothing'}")
sys.exit(1 if leaks else 0)
