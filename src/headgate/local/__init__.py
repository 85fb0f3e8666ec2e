"""A cluster on this machine: `headgate up`, which is an API server, the rest of a cluster, and Headgate itself.

* `servers` starts the API server of a cluster: the small Kubernetes, or a real kube-apiserver.
* `timeline` plays a scenario into it.
* `up` puts them together, with the controllers and kubelets of `world` and with `live.service` as the Headgate of each
  cluster; `summary` is what is shown meanwhile.

Everybody talks to the API server over HTTPS, so that both kinds of servers are used in the same way, and everybody's
clock is one: wall time, or so many times faster. Tests: `tests/local`.
"""
