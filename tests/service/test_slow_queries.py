"""A slow query is one line: its name, its call, its trace, and nothing of what was asked. Postgres's own log agrees."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from fix_database import TestDatabase
from fix_metrics import sample
from opentelemetry import trace
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from skein_cluster import embedded
from skein_kit.calls.call import Call, as_current_call
from skein_kit.database import named_queries
from skein_kit.database.named_queries import Query
from skein_kit.database.schema_migrations import migrate
from skein_kit.database.transactions import Database
from skein_kit.errors import DatabaseUnavailable, DeadlineExceeded
from skein_kit.telemetry.metrics import TRACING

ROOT = Path(__file__).parents[2]
SECRET = "the okapi sleeps at noon"
SLOW = Query.parse("slow_read", "SELECT :said::text, pg_sleep(0.02) FROM generate_series(1, 2)")
FOR_EVER = Query.parse("for_ever", "SELECT pg_sleep(60)")


@asynccontextmanager
async def opened(database: TestDatabase, slow_seconds: float) -> AsyncIterator[Database]:
    async with Database.open(database.url, service="memory", size=1, timeout=30.0, slow_seconds=slow_seconds) as result:
        yield result


@pytest.fixture
def traced() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    TRACING.start(SimpleSpanProcessor(exporter))
    yield exporter
    TRACING.stop()


def lines(log: StringIO) -> list[dict[str, Any]]:
    """Return what is said of the queries of these tests: on a slow machine, others of this process are slow as well."""
    slow_lines = [line for line in map(json.loads, log.getvalue().splitlines()) if line["event"] == "slow_query"]
    return [line for line in slow_lines if line["query_name"] in {SLOW.name, FOR_EVER.name}]


def counted(query: str) -> float:
    return sample("skein_database_slow_queries_total", service="memory", query=query) or 0.0


async def test_it_is_one_line_that_leads_to_the_call_and_its_trace_and_holds_no_value(
    untouched: TestDatabase, log: StringIO, traced: InMemorySpanExporter
) -> None:
    path = "/skein.memory.v1.MemoryService/GetMemory"
    call = Call(path=path, metadata={"skein-request-id": "r1"}, deadline=None, peer="")
    before = counted("slow_read")

    with as_current_call(call), TRACING.tracer.start_as_current_span(path, kind=SpanKind.SERVER):
        async with opened(untouched, 0.01) as pool, pool.global_transaction() as tx:
            await tx.rows(SLOW, said=SECRET)

    (line,) = lines(log)
    (span,) = (span for span in traced.get_finished_spans() if span.name == "slow_read")
    assert span.context is not None
    assert line["trace_id"] == f"{span.context.trace_id:032x}"
    assert (line["service"], line["query_name"], line["rows"], line["outcome"]) == ("memory", "slow_read", 2, "ok")
    assert (line["request_id"], line["method"]) == ("r1", path)
    assert line["milliseconds"] >= 40
    assert "okapi" not in log.getvalue()
    assert "pg_sleep" not in log.getvalue()
    assert counted("slow_read") == before + 1


async def test_a_query_that_the_server_ended_is_logged_as_well(untouched: TestDatabase, log: StringIO) -> None:
    loop = asyncio.get_running_loop()
    # On a slow machine the time may be over before the statement is sent: then it is sent again.
    async with opened(untouched, 0.01) as pool, asyncio.timeout(30):
        while not lines(log):
            call = Call(path="/x", metadata={}, deadline=loop.time() + 0.1, peer="")
            with as_current_call(call), pytest.raises(DeadlineExceeded):
                async with pool.global_transaction() as tx:
                    await tx.rows(FOR_EVER)

    (line,) = lines(log)
    assert (line["query_name"], line["rows"], line["outcome"]) == ("for_ever", None, "57014")


@pytest.mark.parametrize("slow_seconds", [0.0, 3600.0], ids=["switched off", "below the limit"])
async def test_queries_below_the_threshold_are_not_logged(
    untouched: TestDatabase, log: StringIO, slow_seconds: float
) -> None:
    async with opened(untouched, slow_seconds) as pool, pool.global_transaction() as tx:
        await tx.rows(SLOW, said=SECRET)

    assert lines(log) == []


@pytest.mark.system
async def test_postgres_s_own_log_has_the_same_name_with_the_service_and_no_value() -> None:
    """With the settings of deploy/postgres, but for the time after which a statement is logged."""
    conf = (ROOT / "deploy/postgres/postgresql.conf").read_text("utf-8")
    settings = {name: value.strip("'") for name, value in re.findall(r"^(log_\w+) = ('[^']*'|\S+)", conf, re.MULTILINE)}
    assert settings["log_min_duration_statement"] != "-1"
    folder = Path(tempfile.mkdtemp(prefix="skein-test-"))
    folder.chmod(0o711)
    try:
        async with embedded.running_server(
            folder / "pg", durable=False, settings={**settings, "log_min_duration_statement": "10ms"}
        ) as server:
            await embedded.create_database(server, "skein")
            url = server.url(user="postgres", database="skein")
            connection = await asyncpg.connect(url)
            await connection.execute("CREATE ROLE skein_memory")
            await connection.close()
            async with (
                Database.open(url, service="memory", size=1, timeout=30.0) as pool,
                pool.global_transaction() as tx,
            ):
                await tx.rows(SLOW, said=SECRET)
            # Nor does it hold a password, however slow it was to set.
            connection = await asyncpg.connect(url)
            await connection.execute("ALTER DATABASE skein SET log_min_duration_statement = 0")
            await connection.close()
            await migrate(url, [], ["memory"], passwords={"memory": SECRET})
        written = (folder / "pg.log").read_text("utf-8")
    finally:
        shutil.rmtree(folder, ignore_errors=True)

    # On a slow machine, taking the statement in is slow as well, and another line.
    (line,) = (line for line in written.splitlines() if "pg_sleep" in line and " ms  execute " in line)
    assert re.search(r"\[\d+\] postgres skein_memory LOG:  duration: \d+\.\d+ ms .*: /\* slow_read \*/ SELECT", line)
    assert "okapi" not in written


async def test_a_span_ends_although_its_slow_query_cannot_be_logged(
    database: TestDatabase, traced: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(*_: object, **__: object) -> None:
        raise BrokenPipeError

    async with opened(database, 0.001) as pool:
        monkeypatch.setattr(named_queries.log, "warning", closed, raising=False)
        with TRACING.tracer.start_as_current_span("call", kind=SpanKind.SERVER), pytest.raises(DatabaseUnavailable):
            async with pool.global_transaction() as tx:
                await tx.rows(SLOW, said=SECRET)
        remaining = trace.get_current_span()

    # A cluster of other tests may run in this process, and has spans of its own.
    assert [span.name for span in traced.get_finished_spans()].count(SLOW.name) == 1
    assert not remaining.get_span_context().is_valid
