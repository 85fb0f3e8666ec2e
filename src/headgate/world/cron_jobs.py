"""The CronJob controller: Jobs by a schedule, in UTC."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from headgate.api.owners import job_from_template
from headgate.api.wire import format_time
from headgate.model.effects import CronJobProgress, Delete, Effect, PatchStatus, WakeAt
from headgate.model.events import Event, Gone, Observed, Outcome, TimerFired, WriteError
from headgate.model.keys import Kind
from headgate.model.objects import CronJob, Job
from headgate.world.controller import PERMANENT

UTC_NAMES = frozenset({"", "UTC", "Etc/UTC"})
LONGEST_SEARCH = timedelta(days=366 * 5)  # 29 February may be four years away
_LONGEST_PREFIX = 52
_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day of month", 1, 31), ("month", 1, 12), ("day of week", 0, 7))
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NAMED = {
    "month": {name: number for number, name in enumerate(_MONTHS, 1)},
    "day of week": {name: number for number, name in enumerate(_DAYS)},
}


class InvalidSchedule(ValueError):
    """A schedule that cannot be followed; the text says what was expected."""


class Schedule(Struct, frozen=True):
    """The values of each field at which a Job is due."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # Sunday is 0
    either_day: bool  # both days are restricted, so either will do

    def after(self, moment: float) -> float | None:
        """The first time after the moment; None if there is none within years."""
        at = datetime.fromtimestamp(moment, UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
        end = at + LONGEST_SEARCH
        while at < end:
            if at.month not in self.months or not self._is_day(at):
                at = at.replace(hour=0, minute=0) + timedelta(days=1)
            elif at.hour not in self.hours:
                at = at.replace(minute=0) + timedelta(hours=1)
            elif at.minute not in self.minutes:
                at += timedelta(minutes=1)
            else:
                return at.timestamp()
        return None

    def _is_day(self, at: datetime) -> bool:
        by_month, by_week = at.day in self.days, (at.weekday() + 1) % 7 in self.weekdays
        return by_month or by_week if self.either_day else by_month and by_week


def parse_schedule(text: str) -> Schedule:
    """Five fields, or a name such as @daily. Raises InvalidSchedule."""
    parts = _MACROS.get(text.strip(), text).split()
    if len(parts) != len(_FIELDS):
        raise InvalidSchedule(f"expected five fields (minute, hour, day, month, weekday), got {text!r:.60}")
    values = [_values(part, *limits) for part, limits in zip(parts, _FIELDS, strict=True)]
    weekdays = frozenset(day % 7 for day in values[4])
    either = not parts[2].startswith(("*", "?")) and not parts[4].startswith(("*", "?"))
    return Schedule(values[0], values[1], values[2], values[3], weekdays, either)


def _values(part: str, name: str, least: int, most: int) -> frozenset[int]:
    found: set[int] = set()
    for item in part.split(","):
        span, slash, step = item.partition("/")
        first, dash, last = span.partition("-")
        if first in ("*", "?"):
            begin, end = least, most
        else:
            begin = _number(first, name, least, most)
            end = _number(last, name, least, most) if dash else (most if slash else begin)
        by = _number(step, name, 1, most) if slash else 1
        if end < begin:
            raise InvalidSchedule(f"expected a range that goes up in the {name}, got {item!r:.40}")
        found.update(range(begin, end + 1, by))
    return frozenset(found)


def _number(text: str, name: str, least: int, most: int) -> int:
    named = _NAMED.get(name, {}).get(text.lower())
    if named is not None:
        return named
    if not (text.isascii() and text.isdigit() and least <= int(text[:9]) <= most):
        raise InvalidSchedule(f"expected a {name} from {least} to {most}, got {text!r:.40}")
    return int(text)


class CronJobController:
    """Simpler than the real one: the time zone is UTC, and of several times that were missed the last one counts.

    Its timers are idle: a run without `until` does not go on for CronJobs alone.
    """

    reads = (Kind.CRON_JOB, Kind.JOB)

    def __init__(self) -> None:
        self._crons: dict[str, CronJob] = {}  # by uid
        self._jobs: dict[str, dict[str, Job]] = {}  # by the uid of their CronJob, then by uid
        self._cron_of: dict[str, str] = {}  # by uid of the Job
        self._due: dict[str, tuple[str, float]] = {}  # the schedule, and its next time
        self._deleting: dict[str, None] = {}  # uids of Jobs

    def react(self, batch: Sequence[Event], now: float) -> list[Effect]:
        touched = dict.fromkeys(uid for event in batch if (uid := self._observe(event)))
        return [effect for uid in touched if uid in self._crons for effect in self._reconcile(self._crons[uid], now)]

    def _observe(self, event: Event) -> str:
        """Keeps what the event says; returns the uid of the CronJob it concerns, or an empty string."""
        match event:
            case Observed(CronJob() as cron):
                self._crons[cron.uid] = cron
                return cron.uid
            case Observed(Job() as job) if job.owner is not None and job.owner.key.kind is Kind.CRON_JOB:
                self._jobs.setdefault(job.owner.uid, {})[job.uid] = job
                self._cron_of[job.uid] = job.owner.uid
                return job.owner.uid
            case Gone(key, uid) if key.kind is Kind.CRON_JOB:
                for known in (self._crons, self._due, self._jobs):
                    known.pop(uid, None)
            case Gone(_, uid) if uid in self._cron_of:
                self._deleting.pop(uid, None)
                owner = self._cron_of.pop(uid)
                self._jobs.get(owner, {}).pop(uid, None)
                return owner
            case TimerFired(timer):
                return timer
            case Outcome(Delete(target), WriteError() as trouble) if trouble not in PERMANENT:
                self._deleting.pop(target.uid, None)
        return ""

    def _reconcile(self, cron: CronJob, now: float) -> Iterator[Effect]:
        if cron.deleted is not None:
            return
        yield from self._clean_up(cron)
        if cron.suspended or cron.time_zone not in UTC_NAMES:
            self._due.pop(cron.uid, None)
            return
        try:
            schedule = parse_schedule(cron.schedule)
        except InvalidSchedule:  # scenarios refuse it earlier
            return
        known = self._due.get(cron.uid)
        due = known[1] if known is not None and known[0] == cron.schedule else schedule.after(now)
        if due is not None and due <= now:
            yield from self._start(cron, due, now)
            due = schedule.after(now)
        if due is None:
            return
        if self._due.get(cron.uid) != (cron.schedule, due):
            self._due[cron.uid] = (cron.schedule, due)
            yield WakeAt(due, cron.uid, idle=True)

    def _start(self, cron: CronJob, due: float, now: float) -> Iterator[Effect]:
        if cron.starting_deadline is not None and now > due + cron.starting_deadline:
            return
        active = [job for job in self._jobs.get(cron.uid, {}).values() if not job.ended and job.deleted is None]
        if active and cron.concurrency == "Forbid":
            return
        if cron.concurrency == "Replace":
            for job in active:
                yield from self._delete(job)
        name = f"{cron.key.name[:_LONGEST_PREFIX]}-{int(due // 60)}"
        yield job_from_template(cron, name, format_time(due))
        yield PatchStatus(cron.target, CronJobProgress(due))

    def _clean_up(self, cron: CronJob) -> Iterator[Effect]:
        """Of the Jobs that have ended, only the last ones are kept."""
        jobs = sorted(self._jobs.get(cron.uid, {}).values(), key=lambda job: (job.created, job.key), reverse=True)
        for ending, kept in (("Complete", cron.keeps_succeeded), ("Failed", cron.keeps_failed)):
            for job in [job for job in jobs if job.ended == ending][kept:]:
                yield from self._delete(job)

    def _delete(self, job: Job) -> Iterator[Effect]:
        if job.deleted is None and job.uid not in self._deleting:
            self._deleting[job.uid] = None
            yield Delete(job.target)
