"""What do people see? The command `headgate` and its output.

To add a command: write a click command in a module `NAME_command.py`, with options, examples and exit codes, and add it
to `COMMANDS` in `cli.py`. `tests/scenarios/test_simulate_command.py` shows how commands are tested.
"""

from headgate.ui.cli import main

__all__ = ["main"]
