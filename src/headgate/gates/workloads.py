"""May this Workload be created? Its priority classes must exist, and preemption must come to an end.

The words for classes are those of the admission plugin that does the same for pods.
"""

from __future__ import annotations

from headgate.model.admission import Admit, Refuse, Verdict
from headgate.model.groups import Workload
from headgate.model.priority_classes import Classes


def class_to_fill_in(workload: Workload, classes: Classes) -> str:
    """The class a workload gets that names none, as a pod would; where no class is the default, it stays without."""
    return "" if workload.priority_class else classes.default


def judged(workload: Workload, classes: Classes) -> Verdict:
    """Whether its classes exist, and protect it at least as much as they let it preempt others."""
    for name in (workload.priority_class, workload.preemption_priority_class):
        if name and name not in classes.values:
            return Refuse(f"no PriorityClass with name {name} was found")
    if workload.preemption_priority_class and _preempts_more(workload, classes):
        return Refuse(_endless(workload, classes))
    return Admit()


def _preempts_more(workload: Workload, classes: Classes) -> bool:
    return classes.values[workload.preemption_priority_class] < _priority(workload, classes)


def _priority(workload: Workload, classes: Classes) -> int:
    return classes.values.get(workload.priority_class or classes.default, 0)


def _endless(workload: Workload, classes: Classes) -> str:
    """Two workloads like this one could take each other's place for ever."""
    shield, chosen = workload.preemption_priority_class, workload.priority_class or classes.default
    of_class = f"of priorityClassName {chosen}" if chosen else "of a workload without priorityClassName"
    return (
        f"the value of preemptionPriorityClassName {shield} ({classes.values[shield]}) is below the value {of_class} "
        f"({_priority(workload, classes)}): workloads like this one would preempt each other without end"
    )
