"""Why was it decided so? `headgate explain`: one module for each subcommand.

To explain something else, write a click command in a module of its own and add it to the group below.
"""

import click

from headgate.ui.arguments import SuggestingGroup
from headgate.ui.explain.pod_command import pod
from headgate.ui.explain.preemption_command import preemption
from headgate.ui.explain.workload_command import workload

__all__ = ["explain"]


@click.group(
    cls=SuggestingGroup,
    epilog="""\b
Examples:
  headgate explain workload job/train --namespace team-a
      why a job waits, and what would admit it
  headgate explain pod train-0 --namespace team-a
      what holds a pod, and its Volcano queue at every level
  headgate explain preemption team-a/train-0
      who was preempted for whom, and why
""",
)
def explain() -> None:
    """Explain a decision."""


explain.add_command(pod)
explain.add_command(preemption)
explain.add_command(workload)
