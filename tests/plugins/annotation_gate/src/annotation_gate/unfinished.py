"""A module that cannot be imported, as happens on the way to a finished plugin."""

raise RuntimeError("not written yet")
