"""Values that are looked up now and then end; what was never known is not shown as nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fix_metrics import sample
from prometheus_client import REGISTRY
from prometheus_client.openmetrics.exposition import generate_latest

from skein_worker.measure.expiring_gauge import MEASURED_TIME, ExpiringGauge, record_measurement
from skein_worker.measure.measurements import MeasurementStore, PendingCounts, ServerMeasurements


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metric(clock: Clock) -> Iterator[ExpiringGauge]:
    made = ExpiringGauge("test_measured_bytes", "Of a test.", ["thing"], clock=clock)
    yield made
    REGISTRY.unregister(made)


def shown(name: str = "test_measured_bytes", thing: str = "a") -> float | None:
    return sample(name, thing=thing)


def test_nothing_is_shown_before_the_first_look(metric: ExpiringGauge) -> None:
    assert shown() is None
    assert [each.name for each in metric.describe()] == ["test_measured_bytes"]


def test_values_replace_those_of_the_look_before(metric: ExpiringGauge) -> None:
    metric.put({("a",): 1.0, ("b",): 2.0}, ttl_seconds=10)
    metric.put({("a",): 3.0}, ttl_seconds=10)

    assert (shown(thing="a"), shown(thing="b")) == (3.0, None)


def test_values_are_gone_when_they_are_no_longer_measured(metric: ExpiringGauge, clock: Clock) -> None:
    metric.put({("a",): 1.0}, ttl_seconds=10)

    clock.now += 9.9
    before = shown()
    clock.now += 0.2

    assert (before, shown()) == (1.0, None)


@pytest.mark.system
def test_a_counter_is_exposed_as_one() -> None:
    counter = ExpiringGauge("test_measured_failures_total", "Of a test.", kind="counter")
    try:
        counter.put({(): 7.0}, ttl_seconds=10)
        expose: Any = generate_latest  # It carries no types.

        assert sample("test_measured_failures_total") == 7.0
        assert b"# TYPE test_measured_failures counter" in expose(REGISTRY)
    finally:
        REGISTRY.unregister(counter)


def test_it_is_shown_when_something_was_last_measured() -> None:
    before = time.time()

    record_measurement("a test")

    last = sample("skein_measurement_last_success_timestamp_seconds", measurement="a test")
    assert last is not None
    assert before <= last <= time.time()


def test_a_value_that_was_never_measured_was_last_known_long_ago() -> None:
    MEASURED_TIME.clear()

    ServerMeasurements(cast("MeasurementStore", SimpleNamespace(is_citus=False)), seconds=15.0)

    (family,) = MEASURED_TIME.collect()
    assert {sample.labels["measurement"]: sample.value for sample in family.samples} == dict.fromkeys(
        ("server", "transactions", "replicas", "tables", "queue", "embedding_backlog", "webhooks"), 0.0
    )


def test_the_backlogs_of_tenants_are_one_sum() -> None:
    tally = PendingCounts()
    tally.record("one", 3, 90.0, at=100.0)
    tally.record("two", 4, 95.0, at=100.0)
    tally.record("one", 1, 97.0, at=105.0)

    assert (tally.count, tally.oldest_age(110.0, since_first_seen=False)) == (5, 15.0)


def test_a_tenant_without_anything_waiting_and_one_that_is_gone_count_no_more() -> None:
    tally = PendingCounts()
    for name in ("empty", "gone", "here"):
        tally.record(name, 2, 10.0, at=20.0)
    tally.record("empty", 0, 0.0, at=30.0)

    tally.retain_only({"here", "empty"})

    assert (tally.count, tally.oldest_age(40.0, since_first_seen=False)) == (2, 30.0)
    tally.record("here", 0, 0.0, at=50.0)
    assert (tally.count, tally.oldest_age(60.0, since_first_seen=False)) == (0, 0.0)


def test_an_imported_item_waits_since_it_was_seen_and_not_since_it_was_written() -> None:
    years_ago = 1_000.0
    tally = PendingCounts()
    tally.record("moved in", 500, years_ago, at=1_000_000.0)
    tally.record("moved in", 400, years_ago, at=1_000_030.0)

    assert tally.oldest_age(1_000_060.0, since_first_seen=True) == 60.0
