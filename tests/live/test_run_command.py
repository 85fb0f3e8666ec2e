"""`headgate run` as people meet it: exit codes, errors in one line, clean stops, light to load."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from scripted_server import unused_port
from tiny_cluster import tiny_cluster

from headgate.live.start import with_names
from headgate.model.settings import Point, Profile, Settings
from headgate.ui.cli import main

RUN = (sys.executable, "-c", "from headgate.ui.run_command import run; run()")


def good_kubeconfig(folder: Path, server: str = "http://127.0.0.1:1") -> Path:
    file = folder / "good"
    cluster = {"name": "x", "cluster": {"server": server}}
    context = {"name": "x", "context": {"cluster": "x"}}
    file.write_text(json.dumps({"current-context": "x", "contexts": [context], "clusters": [cluster]}))
    return file


@pytest.mark.parametrize(
    "arguments, said",
    [
        pytest.param(["--kubeconfig", "missing"], "missing: expected a readable file", id="a missing kubeconfig"),
        pytest.param(
            ["--kubeconfig", "good", "--context", "y"], "expected a context named 'y'", id="a missing context"
        ),
        pytest.param(
            ["--kubeconfig", "good", "--config", "none"], "none: expected a readable file", id="no such config"
        ),
        pytest.param(["--kubeconfig", "good", "--config", "bad"], "bad: ", id="a config with a field nobody knows"),
        pytest.param(["--roles", "chef"], "expected roles among quota, scheduler", id="an unknown role"),
        pytest.param(["--roles", ""], "expected at least one role", id="no role"),
        pytest.param(["--kubeconfig", "good", "--listen", "x"], "--listen: expected HOST:PORT", id="a place to listen"),
        pytest.param(["--lease-namespace", "a b"], "expected the name of a namespace", id="a namespace"),
        pytest.param(["--scheduler-name", "A!"], "expected a name of lower-case", id="a scheduler name"),
        pytest.param(["--kubeconfig", "good", "--record", "no/where"], "--record: expected a file", id="a recording"),
        pytest.param(
            ["--kubeconfig", "good", "--plugin-timeout", "soon"], "--plugin-timeout: expected a duration", id="a limit"
        ),
        pytest.param(["--kubeconfig", "good", "--plugin-timeout", "0s"], "a duration above 0", id="a limit of nothing"),
        pytest.param([], "no cluster: expected --kubeconfig FILE", id="no cluster at all"),
    ],
)
def test_wrong_input_is_one_line_and_exit_status_2(tmp_path: Path, monkeypatch, arguments, said):
    good_kubeconfig(tmp_path)
    (tmp_path / "bad").write_text("nobodyKnows: 1")
    monkeypatch.chdir(tmp_path)
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    result = CliRunner().invoke(main, ["run", *arguments])
    assert result.exit_code == 2
    last = result.output.strip().splitlines()[-1]
    assert last.startswith("Error: ")
    assert said in last


def test_help_shows_examples():
    result = CliRunner().invoke(main, ["run", "--help"])
    assert result.exit_code == 0
    assert "headgate run --kubeconfig admin.conf --roles scheduler" in result.output


async def started(*arguments: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(*RUN, *arguments, stderr=pipe, stdout=pipe, env=dict(os.environ))


async def until_line(process: asyncio.subprocess.Process, part: str) -> str:
    while line := (await process.stderr.readline()).decode():
        if part in line:
            return line
    raise AssertionError(f"ended without saying {part!r}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_it_cleanly(tmp_path: Path, number: signal.Signals):
    async with tiny_cluster() as cluster:
        cluster.add_node("n-1")
        cluster.add_pod("a")
        file = cluster.kubeconfig(tmp_path)
        process = await started("--kubeconfig", str(file), "--listen", "", "--log-format", "json")
        await cluster.until(lambda: cluster.bindings)
        process.send_signal(number)
        rest = (await process.communicate())[1].decode()
        assert process.returncode == 0
        assert json.loads(rest.splitlines()[-1])["message"] == "stopped"
        assert cluster.leases.transitions[-1] == "", "the lease was handed back"


async def test_fields_of_kueues_file_that_do_not_apply_are_listed_once_at_the_start(tmp_path: Path):
    config = tmp_path / "kueue.yaml"
    config.write_text(
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nwebhook: {port: 9443}\nhealth: {}\ntls: {minVersion: a}\n"
    )
    async with tiny_cluster() as cluster:
        cluster.add_node("n-1")
        cluster.add_pod("a")
        file = cluster.kubeconfig(tmp_path)
        process = await started("--kubeconfig", str(file), "--listen", "", "--config", str(config))
        await cluster.until(lambda: cluster.bindings)
        process.send_signal(signal.SIGTERM)
        told = (await process.communicate())[1].decode()
    assert told.count("do not apply") == 1
    assert "webhook.port, tls.minVersion" in told


@pytest.mark.parametrize("flag", ["--leader-elect=false", "--no-leader-elect"])
async def test_without_an_election_no_lease_is_touched(tmp_path: Path, flag: str):
    async with tiny_cluster() as cluster:
        cluster.add_node("n-1")
        cluster.add_pod("a")
        process = await started("--kubeconfig", str(cluster.kubeconfig(tmp_path)), flag, "--listen", "")
        await cluster.until(lambda: cluster.bindings)
        process.terminate()
        await process.communicate()
        assert process.returncode == 0
        assert cluster.leases.lease is None


async def test_an_unreachable_server_is_a_visible_message_and_no_stack_trace(tmp_path: Path):
    file = good_kubeconfig(tmp_path, f"http://127.0.0.1:{unused_port()}")
    process = await started("--kubeconfig", str(file), "--listen", "")
    line = await until_line(process, "API server")
    assert "Connection refused; retrying" in line
    process.terminate()
    rest = (await process.communicate())[1].decode()
    assert process.returncode == 0
    assert "Traceback" not in rest


async def test_a_busy_port_is_exit_status_1_and_names_the_flag(tmp_path: Path):
    async with tiny_cluster() as cluster:
        busy = f"127.0.0.1:{cluster.server.port}"
        process = await started("--kubeconfig", str(cluster.kubeconfig(tmp_path)), "--listen", busy)
        said = (await process.communicate())[1].decode()
        assert process.returncode == 1
        assert said.strip().endswith(
            f"Error: {busy} is in use; choose another with --listen HOST:PORT, or none with --listen ''"
        )


def test_loading_the_command_loads_nothing_heavy():
    check = "import sys, headgate.ui.run_command; print([m for m in sys.argv[1:] if m in sys.modules])"
    heavy = ("asyncio", "msgspec", "numpy", "httptools", "prometheus_client", "yaml", "uvloop", "ssl")
    done = subprocess.run([sys.executable, "-c", check, *heavy], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_name_given_on_the_command_line_ignores_gates_like_all_others_when_the_feature_is_off():
    configured = Settings(features={"PodSchedulingReadiness": False})
    (profile,) = with_names(configured, ("c",)).profiles
    assert not profile.has_on("SchedulingGates", Point.PRE_ENQUEUE)


def test_a_name_given_on_the_command_line_keeps_the_profile_configured_for_it():
    configured = Settings(profiles=(Profile("a", weights={"X": 2}), Profile("b")))
    assert with_names(configured, ()) == configured
    assert with_names(configured, ("c", "a")).profiles == (Profile("c"), Profile("a", weights={"X": 2}))
