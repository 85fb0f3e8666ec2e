"""The engine on a real cluster: `headgate run`, `headgate install`, and the reads of `headgate explain workload`.

* `start` (flags, exit codes) and `service` (leader election, health pages, webhooks) make up the process; `term` is one
  leader term, `loop` its loop. A new flag is a field of `start.Flags` and an option in `ui/run_command.py`.
* `reflector` observes, `performer` writes; `client`, `connection`, `credentials`, `kubeconfig` and `access` reach the
  server.
* `api_front` serves the small Kubernetes, `data_dir` keeps what must outlive it.
* `worker_clusters` is the same for other clusters: a connection for each, with the kubeconfig of `kubeconfig_source`.
* `webhooks` serves the handlers of `gates.webhooks`, with its certificate; `certificates` makes and loads such.
* `metrics` (a new series and its help text), `logs`, `health` (pages, who may read them), `recorder`, `plugin_calls`.

Tests: `tests/live`; `tests/conformance` compares a live process with the simulator.
"""
