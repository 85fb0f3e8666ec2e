"""What the metrics that come from the engine mean, in the words Prometheus shows with them."""

from __future__ import annotations

from collections.abc import Mapping

ENGINE = "As the engine sees it."
"""Of metrics without words of their own."""

_QUEUED = "since they were created or queued up again"
_QUEUES: Mapping[str, str] = {
    "quota_reserved_workloads_total": "Workloads that got quota.",
    "quota_reserved_wait_time_seconds": f"How long workloads waited for quota, {_QUEUED}.",
    "admitted_workloads_total": "Workloads that were admitted.",
    "admission_wait_time_seconds": f"How long workloads waited to be admitted, {_QUEUED}.",
    "admission_checks_wait_time_seconds": "How long workloads with quota waited for their admission checks.",
    "ready_wait_time_seconds": f"How long it took until the pods of workloads were ready, {_QUEUED}.",
    "admitted_until_ready_wait_time_seconds": "How long it took the pods of admitted workloads to be ready.",
    "finished_workloads_total": "Workloads that finished.",
    "finished_workloads": "Workloads that are finished and still there.",
    "execution_time_seconds": "How long finished workloads were admitted, all their admissions together.",
    "evicted_workloads_total": "Workloads that were told to go, each time they were.",
    "pending_workloads": "Workloads that wait: active ones are tried as things are, the others when something changes.",
    "reserving_active_workloads": "Workloads that hold quota.",
    "admitted_active_workloads": "Workloads that are admitted.",
    "unadmitted_workloads": "Workloads that are neither admitted nor finished, by what holds them back.",
}
"""Told of cluster queues and, under another name, of local queues."""

TEXTS: Mapping[str, str] = {
    "headgate_quarantined_objects": "Objects left out until they change, because they could not be dealt with.",
    "headgate_quarantines_total": "Objects that were quarantined, each time they were.",
    "headgate_engine_rebuilds_total": "Times a fresh engine started because a decision failed.",
    **{f"kueue_{name}": text for name, text in _QUEUES.items()},
    **{f"kueue_local_queue_{name}": f"By local queue: {text[0].lower()}{text[1:]}" for name, text in _QUEUES.items()},
    "kueue_admission_attempts_total": "Admission cycles; a success is one that admitted a workload.",
    "kueue_admission_cycle_preemption_skips": "Preemptions put off in the queue's last cycle, as others went first.",
    "kueue_preemption_target_recomputations_total": "Decisions made anew because the victims had to go for others.",
    "headgate_withheld_preemptions_total": "Preemptions withheld, as workloads would preempt each other in circles.",
    "kueue_pending_scheduling_hashes": "Sorts of waiting workloads, those of one sort asking for the same.",
    "kueue_evicted_workloads_once_total": "Workloads that were told to go, the first time for each reason.",
    "kueue_preempted_workloads_total": "Workloads that had to go for others, by the queue of those.",
    "kueue_pods_ready_to_evicted_time_seconds": "How long pods had been ready when their workload was told to go.",
    "kueue_workload_eviction_latency_seconds": "How long workloads that were told to go held on to their quota.",
    "kueue_workload_creation_latency_seconds": "How long after a job its workload was created.",
    "kueue_pod_scheduling_gate_removal_seconds": "How long after admission the gate was taken off a pod.",
    "kueue_cluster_queue_status": "1 for the status the cluster queue has, 0 for the others.",
    "kueue_cluster_queue_info": "1, with the cohorts that the cluster queue is in.",
    "kueue_cluster_queue_weighted_share": "What the queue borrows of what could be lent, in thousandths, by weight.",
    "kueue_cluster_queue_resource_pending": "What waiting workloads ask for.",
    "kueue_cluster_queue_resource_reservation": "What workloads with quota hold.",
    "kueue_cluster_queue_resource_usage": "What admitted workloads hold.",
    "kueue_cluster_queue_nominal_quota": "The cluster queue's own quota.",
    "kueue_cluster_queue_borrowing_limit": "How much the cluster queue may borrow.",
    "kueue_cluster_queue_lending_limit": "How much of its quota the cluster queue lends.",
    "kueue_cohort_info": "1, with the cohorts that the cohort is in.",
    "kueue_cohort_weighted_share": "What the cohort borrows of what could be lent, in thousandths, by weight.",
    "kueue_cohort_subtree_quota": "The quota of the cohort and all below it.",
    "kueue_cohort_subtree_resource_reservations": "What workloads with quota hold in all queues of the cohort.",
    "kueue_cohort_subtree_admitted_workloads_total": "Workloads that were admitted in all queues of the cohort.",
    "kueue_cohort_subtree_admitted_active_workloads": "Workloads that are admitted in all queues of the cohort.",
    "kueue_local_queue_status": "1 for whether the local queue takes work, 0 for the other answers.",
    "kueue_local_queue_resource_reservation": "What workloads with quota hold.",
    "kueue_local_queue_resource_usage": "What admitted workloads hold.",
    "kueue_local_queue_admission_fair_sharing_usage": "What the local queue used lately; who used less goes first.",
}
