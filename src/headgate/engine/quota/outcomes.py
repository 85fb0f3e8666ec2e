"""What may become of the head of a queue in an admission cycle."""

from __future__ import annotations

from msgspec import Struct

from headgate.preemption.quota.search import Victim
from headgate.quota.assignment import Assignment
from headgate.quota.order import Applicant
from headgate.quota.progress import Progress
from headgate.quota.requeue import Requeue, Unreserved


class Admitted(Struct, frozen=True, gc=False):
    applicant: Applicant
    assignment: Assignment


class Preempting(Struct, frozen=True, gc=False):
    """It gets what it was assigned once the victims are gone; some of them may be on their way out already."""

    applicant: Applicant
    assignment: Assignment
    victims: tuple[Victim, ...]
    message: str
    recomputed: bool = False  # these are not the victims it had at first, for some were others' already


class Deferred(Struct, frozen=True, gc=False):
    """It fits once the victims of others are gone; until then quota would be exceeded."""

    applicant: Applicant
    assignment: Assignment
    message: str
    recomputed: bool = False


class Gated(Struct, frozen=True, gc=False):
    """It would have to preempt these, which a closed gate forbids."""

    applicant: Applicant
    victims: tuple[Victim, ...]
    message: str
    recomputed: bool = False


class Waits(Struct, frozen=True, gc=False):
    """`skipped_preemption`: it would have preempted, had others not gone before.

    `withheld`: it would have preempted, had that not led back to an allocation from before.
    """

    applicant: Applicant
    reason: Unreserved
    requeue: Requeue
    message: str
    progress: Progress | None = None
    skipped_preemption: bool = False
    recomputed: bool = False
    withheld: bool = False


Outcome = Admitted | Preempting | Deferred | Gated | Waits
