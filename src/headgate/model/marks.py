"""The mark on pods that leave together says how many they are, for whoever must finish what another began."""

from __future__ import annotations

import re

_SAID = re.compile(r"; (\d{1,9}) pods leave together$")


def leaving_together(text: str, pods: int) -> str:
    return f"{text}; {pods} pods leave together" if pods > 1 else text


def pods_together(text: str) -> int:
    """How many the text says there are; 0 where it does not."""
    found = _SAID.search(text)
    return int(found[1]) if found else 0
