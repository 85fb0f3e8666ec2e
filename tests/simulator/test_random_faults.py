"""The promise: whatever goes wrong, every pod ends up on a node, or waits because no node can take it."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_scenarios import nodes, pod, scenario

from headgate.simulator.faults import Faults
from headgate.simulator.virtual_time import run

chances = st.sampled_from([0.0, 0.1, 0.4])
faults = st.builds(
    Faults,
    crash=st.sampled_from([0.0, 0.05, 0.2]),
    lost=chances,
    conflict=chances,
    coalesced=chances,
    dropped=chances,
    stale=st.sampled_from([0.0, 0.5, 3.0]),
    restart=st.sampled_from([0.0, 2.0]),
)
pods = st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["", "3", "20"]), st.integers(0, 9)), max_size=8)
disturbances = st.lists(
    st.one_of(
        st.builds(lambda at: {"at": f"{at}s", "crash": "2s"}, st.integers(0, 12)),
        st.builds(lambda at: {"at": f"{at}s", "disconnect": "4s"}, st.integers(0, 12)),
        st.builds(lambda at, lag: {"at": f"{at}s", "stale": f"{lag}s"}, st.integers(0, 12), st.integers(0, 4)),
        st.builds(lambda at: {"at": f"{at}s", "dropNode": "n-0"}, st.integers(0, 12)),
    ),
    max_size=3,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pods, st.integers(1, 3), faults, disturbances, st.integers(0, 1000))
def test_every_pod_is_bound_or_rightly_waits(pods, count, faults, disturbances, seed):
    arrivals = [
        {"at": f"{at}s", "apply": [pod(f"p-{number}", cpu=str(cpu), run=run_seconds)]}
        for number, (cpu, run_seconds, at) in enumerate(pods)
    ]
    report = run(scenario(machines=[nodes(count)], timeline=[*arrivals, *disturbances]), seed, faults)
    free = {found["metadata"]["name"]: 4 for found in report.final["main"] if found["kind"] == "Node"}
    waiting = []
    for found in report.final["main"]:
        if found["kind"] == "Pod":
            cpu = int(found["spec"]["containers"][0]["resources"]["requests"]["cpu"])
            if "nodeName" not in found["spec"]:
                waiting.append(cpu)
            elif found["status"]["phase"] == "Running":
                free[found["spec"]["nodeName"]] -= cpu
    assert all(room >= 0 for room in free.values())
    assert all(cpu > room for cpu in waiting for room in free.values()), "a pod waits although a node could take it"
