"""Observations in, effects out: an engine driven by hand."""

from msgspec.structs import replace

from headgate.engine.loop import Engine
from headgate.gates.pre_enqueue import PRE_ENQUEUE
from headgate.model.effects import Bind, EmitEvent, Evict, PatchStatus, WakeAt, WorkloadStatus
from headgate.model.events import Observed, Outcome, TimerFired
from headgate.model.settings import Settings

DEFAULTS = Settings()


class Steps:
    """An engine and the effects of its last step, safety nets aside."""

    def __init__(self, *objects, settings=DEFAULTS, pre_enqueue=PRE_ENQUEUE):
        self.engine = Engine(turned_on(settings, pre_enqueue), pre_enqueue)
        self.now = 0.0
        self.effects = []
        self.see(*objects)

    def see(self, *objects):
        return self.step(*(Observed(one) for one in objects))

    def step(self, *events):
        made = self.engine.step(events, self.now)
        self.effects = [effect for effect in made if not (isinstance(effect, WakeAt) and effect.idle)]
        return self

    @property
    def goes_on(self):
        """Whether the last step left work to one that follows at once."""
        return any(isinstance(effect, WakeAt) and effect.at <= self.now for effect in self.effects)

    def to_the_end(self):
        """The steps that follow at once."""
        while self.goes_on:
            self.step(TimerFired("scheduling"))
        return self

    def later(self, seconds, *events):
        self.now += seconds
        return self.step(*events)

    def accepted(self):
        """The server carries out the bindings and evictions of the last step."""
        return self.step(*(Outcome(effect) for effect in self.effects if isinstance(effect, Bind | Evict)))

    @property
    def events(self):
        """The messages of Kubernetes events, by the name of their object."""
        return {e.target.key.name: e.message for e in self.effects if isinstance(e, EmitEvent)}

    @property
    def binds(self):
        return {e.target.key.name: e.node for e in self.effects if isinstance(e, Bind)}

    @property
    def kinds(self):
        return [type(effect).__name__ for effect in self.effects]

    def only(self, kind):
        (effect,) = [effect for effect in self.effects if isinstance(effect, kind)]
        return effect

    def only_status(self):
        """The one workload status written."""
        (patch,) = [e for e in self.effects if isinstance(e, PatchStatus) and isinstance(e.change, WorkloadStatus)]
        return patch.change

    @property
    def story(self):
        return [(entry.decision, entry.reason, entry.key.name) for entry in self.engine.journal.take()]

    @property
    def pending(self):
        """How many pods stand in each line."""
        lines = self.engine.gauges().items()
        return {labels[0][1]: size for (name, labels), size in lines if name == "scheduler_pending_pods"}

    def number(self, metric, **labels):
        return self.engine.gauges().get((metric, tuple(sorted(labels.items()))), 0)


def turned_on(settings, plugins):
    """With what stands at the door turned on, but for what a profile turns off."""
    names = frozenset(plugin.name for plugin in plugins)
    profiles = [replace(profile, enabled=names - profile.disabled) for profile in settings.profiles]
    return replace(settings, profiles=tuple(profiles))
