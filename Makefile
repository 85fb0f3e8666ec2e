# Two commands are enough: `make run` and `make test` set up all they need.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
unexport PYTHONDONTWRITEBYTECODE  # or every process that tests start compiles all of it anew

.PHONY: run test check test-kubernetes test-kueue nightly day fleet bench lock

run: $(READY)  ## a cluster on this machine with a job submitted, until Ctrl-C; without a terminal, until that job is done
	@test -t 1 || idle=--exit-when-idle; $(BIN)/headgate up --scenario examples/20-up/scenario.yaml $$idle

test: $(READY)  ## all tests that need nothing but Python
	$(BIN)/python -m pytest -n 3 --ignore=tests/tidy
	@echo "Not tested here: a real kube-apiserver (make test-kubernetes); that decisions are Kueue's own (make test-kueue); style, sizes, types and imports (make check)."

check: $(READY)  ## style, types, import contracts, sizes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	MYPYPATH=benchmarks:tests/kubernetes:tests/kueue $(BIN)/mypy benchmarks
	$(BIN)/lint-imports
	$(BIN)/python -m pytest tests/tidy

test-kubernetes: $(READY)  ## the whole stack on a real kube-apiserver and etcd, with Kueue's scheduler beside it; built and cached on first use
	$(BIN)/python tests/kubernetes/assets.py
	$(BIN)/python tests/kueue/kueue_oracle.py
	$(BIN)/python -m pytest tests/kubernetes

test-kueue: $(READY)  ## our decisions about quota beside those of Kueue's own scheduler, built and cached on first use
	$(BIN)/python tests/kueue/kueue_oracle.py
	$(BIN)/python -m pytest tests/kueue

nightly: $(READY)  ## a hundred thousand random histories of each plane against its laws, hostile objects, the autoscaled day
	$(BIN)/python tests/nightly.py
	$(BIN)/python tests/hostile/nightly_leaks.py
	$(BIN)/python examples/16-autoscaled-day/day.py
	$(BIN)/python tests/kubernetes/assets.py
	$(BIN)/python -m pytest tests/kubernetes/nightly_kubectl.py

day: $(READY)  ## 24 simulated hours with autoscalers on up to 200 nodes, with gates and without; draws the picture anew
	$(BIN)/python examples/16-autoscaled-day/day.py --svg examples/16-autoscaled-day/day.svg

fleet: $(READY)  ## 20 clusters and bursts of urgent work, with three ways to preempt; draws the picture anew
	$(BIN)/python examples/18-fleet/fleet.py --svg examples/18-fleet/fleet.svg

bench: $(READY)  ## how fast, as ratios against a baseline in the same run
	$(BIN)/python benchmarks/bench_decode.py
	$(BIN)/python benchmarks/bench_apiserver.py
	$(BIN)/python benchmarks/bench_front.py
	$(BIN)/python benchmarks/bench_placement.py
	$(BIN)/python benchmarks/bench_gangs.py
	$(BIN)/python benchmarks/bench_preemption.py
	$(BIN)/python benchmarks/bench_quota.py
	$(BIN)/python benchmarks/bench_quota.py --shape large-scale
	$(BIN)/python benchmarks/bench_quota_change.py
	$(BIN)/python benchmarks/bench_queues.py
	$(BIN)/python benchmarks/bench_queues.py --shape large-scale
	$(BIN)/python tests/kubernetes/assets.py
	$(BIN)/python benchmarks/bench_kubernetes.py --rounds 5
	$(BIN)/python benchmarks/bench_kubernetes.py --nodes 5000 --pods 10000 --rounds 1
	$(BIN)/python benchmarks/bench_gated.py --rounds 10
	$(BIN)/python benchmarks/bench_queue_gates.py
	$(BIN)/python benchmarks/bench_fleet.py
	$(BIN)/python benchmarks/bench_queues_kubernetes.py
	$(BIN)/python benchmarks/bench_write_cost.py

$(READY): requirements.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Headgate needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	$(BIN)/python -m compileall -q src
	@touch $@

lock: $(READY)  ## resolve the dependencies anew
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --quiet --upgrade --extra dev --generate-hashes --no-emit-index-url --no-header --universal --python-version 3.11 pyproject.toml --output-file requirements.txt
