"""What does the rest of a cluster do? Controllers and kubelets for simulated clusters, pure like the engine.

To add one, write a class with `reads` (the kinds it watches) and `react(batch, now)` (the effects it asks for), as the
protocol `Controller` says, export it here, and add it to the controllers of `headgate.simulator.cluster`.
`disruptions.py` is a short example, `tests/world/test_disruptions.py` its test.
"""

from headgate.world.controller import Controller
from headgate.world.cron_jobs import CronJobController
from headgate.world.disruptions import DisruptionController
from headgate.world.jobs import JobController
from headgate.world.nodes import InvalidBehaviour, Kubelet, NodeLifecycle, behaviour_of
from headgate.world.replica_sets import DeploymentController, ReplicaSetController, StatefulSetController

__all__ = [
    "Controller",
    "CronJobController",
    "DeploymentController",
    "DisruptionController",
    "InvalidBehaviour",
    "JobController",
    "Kubelet",
    "NodeLifecycle",
    "ReplicaSetController",
    "StatefulSetController",
    "behaviour_of",
]
