"""How Kubernetes says it: objects of every kind we read, effects as requests, and the configuration files.

Bytes are decoded once, here, into the values of `headgate.model`; nothing behind this package sees JSON. Structs named
`Wire…` mirror the JSON of a kind. `decode` names the decoder of each kind and `kinds` its group, version and path. To
read one more kind: a `Kind` in `model.keys`, a row in `kinds`, a decoder here and its row in `decode`. To write one
more field of a status: the change in `model` and its encoding in `statuses`. A field of a Kueue Workload's status:
`kueue_workloads` and `statuses`. One more change of a spec: its patch in `requests`. Tests: `tests/api`.
"""
