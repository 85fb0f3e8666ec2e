"""An explanation as people read it: the verdict, the limits, who holds the quota, and what would help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headgate.engine.why_waiting.answers import Act, Explanation, FlavorReport, HolderLine, Remedy, Shortage
from headgate.engine.why_waiting.explaining import nearest_report
from headgate.engine.why_waiting.sentences import node_text, remedy_sentence
from headgate.quota.wording import amount_text
from headgate.ui.tables import table

MOST_HOLDERS = 8  # lines
LIMITS = ["FLAVOR", "RESOURCE", "LIMIT", "MAY USE", "IN USE", "FREE", "REQUESTED", "MISSING"]


def render(told: Explanation, now: float) -> Iterator[str]:
    """Lines of text; the first has the verdict."""
    yield f"Workload {told.workload}: {told.verdict}"
    yield from _where(told)
    yield f"  {told.workload.partition('/')[2]} {told.summary}."
    yield from (f"  {note}." for note in told.notes)
    if told.flavors:
        yield ""
        yield from _flavors(told)
    yield from _held(told, now)
    if told.remedies:
        yield ""
        yield _headline(told.remedies)
        yield from (f"  * {remedy_sentence(remedy)}" for remedy in told.remedies)


def _headline(remedies: Sequence[Remedy]) -> str:
    if all(isinstance(remedy.change, Act) for remedy in remedies):
        return "What has to happen:"
    return "What would help:" if len(remedies) == 1 else "Each of these alone would help, none with less:"


def _where(told: Explanation) -> Iterator[str]:
    path = [f"LocalQueue {told.local_queue}"] if told.local_queue else []
    path += [f"ClusterQueue {told.cluster_queue}"] if told.cluster_queue else []
    path += [f"Cohort {name}" for name in told.cohorts]
    parts = [" -> ".join(path)] if path else []
    parts.append(f"priority {told.priority}")
    if told.place is not None:
        parts.append(f"{told.place.position} of {told.place.of} in line")
    yield f"  {', '.join(parts)}"


def _flavors(told: Explanation) -> Iterator[str]:
    several = len({report.pod_set for report in told.flavors}) > 1
    if told.about and told.about != told.workload:
        yield f"Of {told.about}, which is ahead of it:"
    rows = [(report, short) for report in told.flavors for short in report.shortages]
    if rows:
        yield from table(LIMITS, [_limit(report, short, several) for report, short in rows])
    for report in told.flavors:
        if report.refusal:
            yield f"{_flavor(report, several)}  {report.refusal}"


def _flavor(report: FlavorReport, several: bool) -> str:
    return f"{report.flavor} ({report.pod_set})" if several else report.flavor


def _limit(report: FlavorReport, short: Shortage, several: bool) -> list[str]:
    numbers = (short.capacity, short.used, short.free, short.requested, short.missing)
    where = f"{short.limit} of {node_text(short.node, short.is_cohort)}"
    return [_flavor(report, several), short.resource, where, *(amount_text(short.resource, one) for one in numbers)]


def _held(told: Explanation, now: float) -> Iterator[str]:
    """Of the flavor that is nearest to fitting."""
    nearest = nearest_report(told.flavors)
    for short in nearest.shortages if nearest is not None else ():
        if short.holders:
            yield ""
            head = f"HOLDS {short.resource} OF {short.flavor}"
            shown = [_holder(short, one, now) for one in short.holders[:MOST_HOLDERS]]
            yield from table([head, "AMOUNT", "QUEUE", "PRIORITY", "SINCE", "CAN IT BE PREEMPTED"], shown)
            left = len(short.holders) - MOST_HOLDERS
            if left > 0:
                rest = sum(one.amount for one in short.holders[MOST_HOLDERS:])
                yield f"and {left} more with {amount_text(short.resource, rest)} together"


def _holder(short: Shortage, one: HolderLine, now: float) -> list[str]:
    amount = amount_text(short.resource, one.amount)
    since = age(now - one.since) if one.since is not None else "-"
    return [one.workload, amount, one.queue, str(one.priority), since, f"{'yes' if one.may_go else 'no'}, {one.why}"]


def age(seconds: float) -> str:
    """As kubectl shows it, in at most two units."""
    left, parts = max(0, int(seconds)), []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        if left >= size:
            parts.append(f"{left // size}{unit}")
            left %= size
    return "".join(parts[:2]) or "0s"
