"""What would Headgate do? The engine on simulated clusters in virtual time: one seed, one history.

`scenario` reads a scenario; `virtual_time` runs it on clusters (`cluster`), each an API server, the controllers of
`headgate.world` and our process, with `faults`; `invariants` hold after every step; `report` is the result. Between
clusters there is a `network`; `fleet` has what must hold in all of them together.

To add an action to the timeline: in `scenario.py`, write its record, add it to the union `Action`, its field to
`TimelineEntry` and `ACTIONS`, and read it in `_ScenarioReader._action`; in `virtual_time.py`, perform it in
`_Run._perform`, where mypy names it while it is missing. `tests/simulator/test_scenario_file.py` shows how actions are
read, `tests/simulator/test_run.py` what they do; `docs/scenarios.md` tells users.
"""

from headgate.simulator.cluster import uncontrolled_kinds
from headgate.simulator.faults import NO_FAULTS, Faults, parse_faults
from headgate.simulator.invariants import BrokenInvariant
from headgate.simulator.report import Report
from headgate.simulator.scenario import InvalidScenario, Scenario, load_scenario, parse_scenario
from headgate.simulator.virtual_time import EPOCH, Interrupted, NeverSettles, Progress, run

__all__ = [
    "EPOCH",
    "NO_FAULTS",
    "BrokenInvariant",
    "Faults",
    "Interrupted",
    "InvalidScenario",
    "NeverSettles",
    "Progress",
    "Report",
    "Scenario",
    "load_scenario",
    "parse_faults",
    "parse_scenario",
    "run",
    "uncontrolled_kinds",
]
