"""Plugins that other packages bring, found by their entry points. Only what a profile enables is ever imported."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from headgate.gates.pre_enqueue import InvalidPlugin, PreEnqueue, plugin_from
from headgate.model.settings import DEFAULT_PLUGINS, Point, Settings

GROUP = "headgate.pre_enqueue"


class InstalledPlugins:
    """What is there, by name. Raises InvalidPlugin where a name means two things."""

    def __init__(self) -> None:
        self._found: dict[str, EntryPoint] = {}
        for found in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
            known = self._found.get(found.name)
            if found.name in DEFAULT_PLUGINS or (known is not None and known.value != found.value):
                other = known.value if known else "headgate"
                raise InvalidPlugin(found.name, f"expected a name of its own; both {other} and {found.value} have it")
            self._found[found.name] = found

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._found)

    def enabled_by(self, settings: Settings) -> tuple[PreEnqueue, ...]:
        """Those that some profile has turned on, by name. Raises InvalidPlugin."""
        return tuple(
            _loaded(found)
            for name, found in self._found.items()
            if any(profile.has_on(name, Point.PRE_ENQUEUE) for profile in settings.profiles)
        )


def _loaded(found: EntryPoint) -> PreEnqueue:
    try:
        brought = found.load()
    except Exception as failure:  # whatever a stranger's code raises, the operator is told which plugin it was
        raise InvalidPlugin(
            found.name, f"{found.value} cannot be imported: {type(failure).__name__}: {failure}"
        ) from failure
    return plugin_from(found.name, brought)
