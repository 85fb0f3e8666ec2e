"""May it be created, may it be queued: the handlers of the admission webhooks, and the PreEnqueue plugins.

`webhooks.HANDLERS` is the one table of webhooks and their handlers; a new rule is a function in the module of its kind
and, for a new webhook, a row there, a member of `model.admission.AdmissionWebhook` and a row in
`api.install_manifests.WEBHOOKS`. `pre_enqueue` holds pods out of the scheduling queue; a new plugin is one more entry
of its list, or an entry point of another package. Tests: `tests/gates`.
"""
