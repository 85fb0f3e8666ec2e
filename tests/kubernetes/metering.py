"""What our process says about itself over HTTP, read as Prometheus reads it."""

from __future__ import annotations

import urllib.request

from ours import OurProcess
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

Values = dict[tuple[str, ...], float]


def scrape(process: OurProcess) -> list[Sample]:
    """All samples of one moment."""
    with urllib.request.urlopen(f"http://127.0.0.1:{process.port}/metrics", timeout=60) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return [sample for family in families for sample in family.samples]


def values_of(scraped: list[Sample], name: str, **wanted: str) -> Values:
    """The samples of that name that have the wanted labels, by the values of their other labels in order of name."""
    return {
        tuple(sample.labels[label] for label in sorted(sample.labels) if label not in wanted): sample.value
        for sample in scraped
        if sample.name == name and wanted.items() <= sample.labels.items()
    }


def pending(scraped: list[Sample]) -> dict[str, float]:
    """scheduler_pending_pods by queue; empty before the process decides."""
    return {queue: count for (queue,), count in values_of(scraped, "scheduler_pending_pods").items()}
