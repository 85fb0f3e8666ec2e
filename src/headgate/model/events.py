"""What the engine learns: how an object is now, that one is gone, that a time has come, how an effect went."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from headgate.model.effects import Write
from headgate.model.keys import Key
from headgate.model.objects import Object
from headgate.model.pod import GroupKey


class Observed(Struct, frozen=True, gc=False):
    """The object now looks like this. Never "this happened": any number of changes may lie between two."""

    object: Object


class Gone(Struct, frozen=True, gc=False):
    """No object with this key and uid exists any more, or none that the engine may look at."""

    key: Key
    uid: str
    quarantined_in: GroupKey | None = None  # the group of a pod that exists and waits in quarantine


class Unreadable(Struct, frozen=True, gc=False):
    """The object exists, and what it says cannot be made out. At home it goes no further than to the quarantine."""

    key: Key
    uid: str
    version: str
    why: str
    node: str = ""  # where it takes room, of a pod that runs
    workload: str = ""  # the Workload it names as prebuilt
    is_leaving: bool = False  # it is being deleted


class TimerFired(Struct, frozen=True, gc=False):
    timer: str


class WriteError(StrEnum):
    """Why an effect did not take hold, as far as that is known."""

    CONFLICT = "conflict"  # the object is not as it was decided on; nothing was done
    GONE = "gone"  # there is no such object any more; nothing was done
    REFUSED = "refused"  # the server will never accept this; nothing was done
    UNAVAILABLE = "unavailable"  # the server could not be asked; nothing was done
    UNKNOWN = "unknown"  # the answer was lost; it may have been done


class Outcome(Struct, frozen=True, gc=False):
    """How an effect went; `trouble` None means the server accepted it."""

    effect: Write
    trouble: WriteError | None = None
    message: str = ""


class WritePermits(Struct, frozen=True, gc=False):
    """So many more informative writes may be sent. An engine that was never told any sends them all at once."""

    writes: int


Event = Observed | Gone | TimerFired | Outcome
"""What is told of the cluster the engine decides about."""


class RemoteEvent(Struct, frozen=True, gc=False):
    """What is told of a worker cluster. The effect of an `Outcome` is the write as it was inside the `RemoteWrite`.

    An object that cannot be read, or that a rule raised for, is told as `Unreadable`.
    """

    cluster: str
    event: Observed | Gone | Unreadable | Outcome


class RemoteState(StrEnum):
    CONNECTED = "connected"
    LOST = "lost"
    REFUSED = "refused"  # its kubeconfig cannot or may not be used


class RemoteConnection(Struct, frozen=True, gc=False):
    """How the connection to a worker cluster stands.

    CONNECTED is told after every object of the cluster was told in `RemoteEvent`s of the same or of earlier batches.
    `reason` and `message` are those of the condition Active of the MultiKueueCluster.
    """

    cluster: str
    state: RemoteState
    reason: str = ""
    message: str = ""


FleetEvent = RemoteEvent | RemoteConnection
"""What is told of other clusters."""

AnyEvent = Event | FleetEvent | WritePermits
"""All that an engine is told."""
