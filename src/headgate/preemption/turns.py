"""Rows spare whom they can, all rows at once: the first in line of every row is asked, then the second, and so on."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from headgate.placement.columns import Amounts
from headgate.preemption.candidates import Shares


def cannot_stay(shares: Shares, rows: NDArray[np.intp], left: Mapping[str, Amounts]) -> NDArray[np.intp]:
    """Which of the shares find no room when each row takes back whom it can, in the given order.

    `rows` are the rows they are on, ascending, and `left` says what each of these has left with nobody back. A share
    must fit by itself: what a unit holds on other rows is not looked at.
    """
    turns = np.argsort(shares.rows, kind="stable")
    lengths = np.bincount(np.searchsorted(rows, shares.rows), minlength=len(rows))
    starts = np.cumsum(lengths) - lengths
    left = {name: amounts.copy() for name, amounts in left.items()}
    leaving: list[NDArray[np.intp]] = [turns[:0]]
    for turn in range(int(lengths.max(initial=0))):
        asking = np.flatnonzero(lengths > turn)
        asked = turns[starts[asking] + turn]
        after = {name: amounts[asking] - shares.held[name][asked] for name, amounts in left.items()}
        stays = np.logical_and.reduce([amounts >= 0 for amounts in after.values()])
        for name, amounts in after.items():
            left[name][asking[stays]] = amounts[stays]
        leaving.append(asked[~stays])
    return np.concatenate(leaving)
