"""May it enter, may it go on: the PreEnqueue plugins, and the admission webhooks' handlers.

`webhooks` is the one table of what an API server asks us about and who answers; a new rule is one more row there and a
function in the module of its kind. `pre_enqueue` holds pods out of the scheduling queue; a new plugin is one more entry
of its list, or an entry point of another package. Tests: `tests/gates`.
"""
