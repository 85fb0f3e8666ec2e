"""PreEnqueue plugins of other packages, found by their entry points; only those a profile enables are imported."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from headgate.gates.pre_enqueue import InvalidPlugin, PreEnqueue, plugin_from
from headgate.model.settings import DEFAULT_PLUGINS, Point, Settings

GROUP = "headgate.pre_enqueue"


class InstalledPlugins:
    """The installed plugins by name. Raises InvalidPlugin where two have one name."""

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

    def enabled_by(self, *settings: Settings) -> tuple[PreEnqueue, ...]:
        """The plugins that some profile of some settings enables, by name. Raises InvalidPlugin."""
        profiles = [profile for each in settings for profile in each.profiles]
        return tuple(
            _loaded(found)
            for name, found in self._found.items()
            if any(profile.has_on(name, Point.PRE_ENQUEUE) for profile in profiles)
        )


def _loaded(found: EntryPoint) -> PreEnqueue:
    try:
        brought = found.load()
    except Exception as failure:  # whatever foreign code raises, the error names the plugin
        raise InvalidPlugin(
            found.name, f"{found.value} cannot be imported: {type(failure).__name__}: {failure}"
        ) from failure
    return plugin_from(found.name, brought)
