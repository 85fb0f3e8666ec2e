"""Every row of docs/conformance.md names a test or scenario that exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\|(?P<says>[^|]+)\|(?P<shown>[^|]+)\|\s*$")
PROOF = re.compile(r"`(?P<file>[^`:]+)(?:::(?P<test>[^`\[]+)[^`]*)?`")


def rows():
    for line in (ROOT / "docs" / "conformance.md").read_text().splitlines():
        row = ROW.match(line)
        if row and not set(row["says"].strip()) <= {"-", ":"} and row["shown"].strip() != "shown by":
            yield row["says"].strip(), row["shown"].strip()


@pytest.mark.parametrize("says, shown", [pytest.param(*row, id=row[0][:60]) for row in rows()])
def test_the_row_is_shown_by_something_that_exists(says, shown):
    if shown.startswith("not built yet"):
        return
    proofs = list(PROOF.finditer(shown))
    assert proofs, f"{says}: name a test as `path::test`, a scenario as `path`, or say: not built yet"
    for proof in proofs:
        path = ROOT / proof["file"]
        assert path.exists(), f"{proof['file']} does not exist"
        if proof["test"]:
            assert f"def {proof['test']}(" in path.read_text(), f"{proof['file']} has no {proof['test']}"
