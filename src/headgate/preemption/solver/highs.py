"""HiGHS, a solver of integer programs in floating point: what it says of a program, within limits.

Installed with the optional extra `exact`; nothing else imports it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import ceil, inf, isfinite

import highspy

from headgate.preemption.solver.program import IMPOSSIBLE, UNTOLD, Inequality, Program, ProgramResult, Terms, small

SETTINGS = (
    ("output_flag", False),
    ("threads", 1),
    ("parallel", "off"),
    ("random_seed", 0),
    ("mip_rel_gap", 0.0),
    ("mip_abs_gap", 0.0),
    ("mip_heuristic_run_feasibility_jump", False),  # finds little in programs this small, and takes its time
)
MARGIN, RELATIVE_MARGIN = 1e-3, 1e-9  # how far a bound may be off by rounding


class Solver:
    """HiGHS within limits, over all it is asked: steps, at each of which it looks whether to go on, and seconds.

    Equal programs take equal steps. The seconds are counted by its own clock.
    """

    def __init__(self, steps: int, seconds: float | None) -> None:
        self._steps = steps
        self._seconds = inf if seconds is None else seconds

    def least(self, program: Program, terms: Terms | None = None, known: int | None = None) -> ProgramResult:
        """The solution with the least sum of these terms; that there is one with the sum `known` is known."""
        if self._seconds <= 0 or self._steps <= 0:
            return UNTOLD
        if not program.limits:
            return IMPOSSIBLE if any(row.limit < 0 for row in program.inequalities) else ProgramResult((), 0)
        known_to_do = [small(terms, known)] if terms and known is not None else []
        return self._run(_model(program.limits, [*program.inequalities, *known_to_do], terms or {}))

    def _run(self, model: highspy.HighsLp) -> ProgramResult:
        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        for name, value in (*SETTINGS, ("time_limit", self._seconds)):
            solver.setOptionValue(name, value)
        if solver.passModel(model) == highspy.HighsStatus.kError:
            return UNTOLD  # numbers too large for it
        solver.cbMipInterrupt += self._step
        solver.run()
        self._seconds -= solver.getRunTime()
        return _answer(solver)

    def _step(self, at: highspy.highs.HighsCallbackEvent) -> None:
        self._steps -= 1
        if self._steps <= 0:
            at.interrupt()


def _model(limits: Sequence[int], rows: Sequence[Inequality], terms: Terms) -> highspy.HighsLp:
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = len(limits), len(rows)
    model.col_cost_ = [terms.get(at, 0) for at in range(len(limits))]
    model.col_lower_, model.col_upper_ = [0] * len(limits), list(limits)
    model.row_lower_, model.row_upper_ = [-inf] * len(rows), [row.limit for row in rows]
    model.integrality_ = [highspy.HighsVarType.kInteger] * len(limits)
    matrix = model.a_matrix_
    matrix.format_ = highspy.MatrixFormat.kRowwise
    matrix.start_ = [0, *accumulate(len(row.terms) for row in rows)]
    matrix.index_ = [at for row in rows for at in row.terms]
    matrix.value_ = [amount for row in rows for amount in row.terms.values()]
    return model


def _answer(solver: highspy.Highs) -> ProgramResult:
    status, info = solver.getModelStatus(), solver.getInfo()
    if status == highspy.HighsModelStatus.kInfeasible:
        return IMPOSSIBLE
    found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    values = tuple(round(value) for value in solver.getSolution().col_value) if found else None
    return ProgramResult(values, _whole(info.mip_dual_bound))


def _whole(bound: float) -> int:
    """The bound that whole numbers keep for sure, whatever was rounded on the way."""
    return max(0, ceil(bound - MARGIN - abs(bound) * RELATIVE_MARGIN)) if isfinite(bound) else 0
