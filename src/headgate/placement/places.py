"""One number a row, by which rows are compared: the score, then how few pods its node runs, then its draw.

That depends on nothing but the cluster and the seed, so a restarted process chooses alike.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headgate.placement.columns import Amounts
from headgate.placement.plugins import Each, Mask, Rows
from headgate.placement.table import PODS, NodeTable

DRAW_BITS = 26
CROWD_BITS = 20  # more than enough for the pods on one node
SCORE_SHIFT = CROWD_BITS + DRAW_BITS  # leaves 17 bits for scores, which all rules with the highest weights do not fill
SHORTENING = 63 - DRAW_BITS  # of the draw its first bits
LEAST_CROWD, FIRST_DRAW = (1 << CROWD_BITS) - 1, (1 << DRAW_BITS) - 1
NO_PLACE = 0


def place_of(nodes: NodeTable, rows: Rows, scores: Each, already: Each = 0) -> Each:
    """The higher the better; none above NO_PLACE where the score is below 0. `already` more pods are imagined there."""
    draw = nodes.draws.item(rows) if type(rows) is int else nodes.draws[rows]
    crowd = LEAST_CROWD - nodes.requested.at(PODS, rows) - already
    return (scores << SCORE_SHIFT) + (crowd << DRAW_BITS) + (FIRST_DRAW - (draw >> SHORTENING))


def score_of(place: Each) -> Each:
    return place >> SCORE_SHIFT


def raised(places: Amounts, points: Amounts) -> Amounts:
    """The same places with so many points more."""
    return places + (points << SCORE_SHIFT)


def foremost(places: Amounts, draws: Amounts) -> int | None:
    """The index of the highest place, None if there is none; where draws begin alike, all of their bits count."""
    first = int(places.argmax())
    top = places.item(first)
    if top <= NO_PLACE:
        return None
    later = places[first + 1 :]
    if not len(later) or later.item(later.argmax()) < top:
        return first
    tied: NDArray[np.intp] = (places == top).nonzero()[0]
    return tied.item(draws[tied].argmin())


def only(places: Amounts, allowed: Mask) -> Amounts:
    """The same places, and none where not allowed."""
    return places * allowed
