"""Autoscalers: who orders nodes, and when, by what the API server shows of pods and nodes.

`cluster_autoscaler` and `karpenter` are controllers of the world. Both simulate scheduling on a `snapshot` and order
instances of node groups from the `cloud_provider`. `review` counts false and missed scale-ups.
"""

from headgate.world.autoscaling.cloud_provider import NODE_GROUP, CloudProvider, Instance, NodeGroup, ScaleUp
from headgate.world.autoscaling.cluster_autoscaler import ClusterAutoscaler
from headgate.world.autoscaling.karpenter import Karpenter
from headgate.world.autoscaling.review import Autoscaler, AutoscalerCounts, ScaleUpReview

__all__ = [
    "NODE_GROUP",
    "Autoscaler",
    "AutoscalerCounts",
    "CloudProvider",
    "ClusterAutoscaler",
    "Instance",
    "Karpenter",
    "NodeGroup",
    "ScaleUp",
    "ScaleUpReview",
]
