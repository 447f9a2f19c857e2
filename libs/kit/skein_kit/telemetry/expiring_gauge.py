"""Metrics that somebody looks up now and then: each value has an end, after which it is not shown any more.

A gauge that is set by a round keeps its last number for ever when the rounds stop, and looks as if all were well. One
of these shows nothing then, and `skein_measured_timestamp_seconds` when it was last known.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from prometheus_client import REGISTRY, Gauge
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

MEASURED_TIME = Gauge(
    "skein_measured_timestamp_seconds",
    "When this process last took this measurement, in Unix time.",
    ["measurement"],
)


class ExpiringGauge(Collector):
    """One metric whose values are looked up: all of them at once, each time."""

    def __init__(
        self,
        name: str,
        documentation: str,
        labels: Sequence[str] = (),
        *,
        kind: Literal["gauge", "counter"] = "gauge",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Show nothing until the first values are put. A counter's name ends in `_total`, as Prometheus has it."""
        # Named as prometheus_client's own metrics name what they know of themselves.
        self._name = name.removesuffix("_total")
        self._type = kind
        self._labelnames = tuple(labels)
        self._documentation = documentation
        self._clock = clock
        self._values: Mapping[tuple[str, ...], float] = {}
        self._ends = 0.0
        REGISTRY.register(self)

    def put(self, values: Mapping[tuple[str, ...], float], *, lasting: float) -> None:
        """Show these values, by their labels, instead of the last ones, for so many seconds."""
        self._values, self._ends = values, self._clock() + lasting

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Yield what is known and not too old."""
        family = self._family()
        if self._clock() < self._ends:
            for labels, value in self._values.items():
                family.add_metric(labels, value)
        yield family

    def describe(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Yield the metric without values."""
        yield self._family()

    def _family(self) -> CounterMetricFamily | GaugeMetricFamily:
        kind = CounterMetricFamily if self._type == "counter" else GaugeMetricFamily
        return kind(self._name, self._documentation, labels=self._labelnames)


def declare_measurements(*measurements: str) -> None:
    """Say what this process is to measure: as long as it never could, it was last known at the time 0."""
    for measurement in measurements:
        MEASURED_TIME.labels(measurement)


def record_measurement(measurement: str) -> None:
    """Note that something was measured just now."""
    MEASURED_TIME.labels(measurement).set_to_current_time()
