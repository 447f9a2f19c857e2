"""Metrics with values that expire: for measurements in rounds.

An ordinary gauge keeps its last value when the rounds stop, as if all were well. An expiring one disappears, and
`skein_measurement_last_success_timestamp_seconds` shows the time of the last measurement.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from prometheus_client import REGISTRY, Gauge
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

MEASURED_TIME = Gauge(
    "skein_measurement_last_success_timestamp_seconds",
    "Unix time of the last successful measurement of this process; 0 before the first one.",
    ["measurement"],
)


class ExpiringGauge(Collector):
    """One metric; each measurement replaces all of its values."""

    def __init__(
        self,
        name: str,
        documentation: str,
        labels: Sequence[str] = (),
        *,
        kind: Literal["gauge", "counter"] = "gauge",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start without values. The name of a counter ends in `_total`."""
        # prometheus_client reads these names.
        self._name = name.removesuffix("_total")
        self._type = kind
        self._labelnames = tuple(labels)
        self._documentation = documentation
        self._clock = clock
        self._values: Mapping[tuple[str, ...], float] = {}
        self._expire_seconds = 0.0
        REGISTRY.register(self)

    def put(self, values: Mapping[tuple[str, ...], float], *, ttl_seconds: float) -> None:
        """Replace the values, by their labels, for this number of seconds."""
        self._values, self._expire_seconds = values, self._clock() + ttl_seconds

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Yield the values that have not expired."""
        family = self._family()
        if self._clock() < self._expire_seconds:
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
    """Announce the measurements of this process; until the first one their timestamp is 0."""
    for measurement in measurements:
        MEASURED_TIME.labels(measurement)


def record_measurement(measurement: str) -> None:
    """Set the timestamp of a measurement to now."""
    MEASURED_TIME.labels(measurement).set_to_current_time()
