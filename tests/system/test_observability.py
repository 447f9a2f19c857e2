"""What an operator sees of a cluster of separate processes: traces, metrics, logs, health. And what stays secret."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import asyncpg
import grpc
import pytest
from fix_cluster import SYSTEM_KEY, AuthorizedChannel, Tenant, refused, test_environment
from fix_http import get
from fix_identities import service_channel
from fix_traces import ReceivedSpan, Receiver, receiving
from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from prometheus_client import Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from skein.gateway.v1 import gateway_pb2, gateway_pb2_grpc
from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein_cluster import registry
from skein_cluster.embedded.databases import DATABASE
from skein_cluster.processes.multi_process import multi_process_cluster
from skein_cluster.processes.single_process import LocalCluster
from skein_kit.identity.permissions import PUBLIC_SERVICES

# Texts that occur nowhere else, so that they are found wherever they went.
CONTENT = "quetzal feathers are kept in the cedar chest"
MESSAGE = "the axolotl was fed at noon"
QUERY = "where did the quetzal feathers go"
TITLE = "cassowary title"
SAID = (CONTENT, MESSAGE, QUERY, TITLE, *CONTENT.split()[:2], "axolotl", "cassowary")

GATEWAY_RECALL = "skein.gateway.v1.GatewayService/Recall"
RECALL = "skein.recall.v1.RecallService/Recall"


@dataclass(frozen=True, kw_only=True)
class TracedCluster:
    """A cluster of processes that sends its traces to the test."""

    cluster: LocalCluster
    tenant: Tenant
    receiver: Receiver

    def logs(self) -> dict[str, str]:
        """Return what each process has logged, as far as its lines are whole."""
        texts = {name: path.read_text("utf-8") for name, path in self.cluster.logs.items()}
        return {name: text[: text.rfind("\n") + 1] for name, text in texts.items()}

    async def metrics(self, service: str) -> dict[str, Metric]:
        status, body = await get(self.cluster.admins[service], "/metrics")
        assert status == 200
        return {family.name: family for family in text_string_to_metric_families(body)}

    async def openmetrics(self, service: str) -> str:
        accept = {"accept": "application/openmetrics-text; version=1.0.0"}
        status, body = await get(self.cluster.admins[service], "/metrics", **accept)
        assert status == 200
        return body

    async def recall(self, **metadata: str) -> gateway_pb2.RecallResponse:
        return await self.tenant.gateway.Recall(
            gateway_pb2.RecallRequest(query=QUERY), metadata=tuple(metadata.items())
        )


@pytest.fixture(scope="module")
async def traced(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[TracedCluster]:
    async with receiving() as receiver:
        environment = {
            **test_environment(),
            "SKEIN_OTLP_ENDPOINT": receiver.endpoint,
            # The tests find their traces by ids of their own choice.
            "SKEIN_TRUST_TRACEPARENT": "true",
            "SKEIN_LOG_LEVEL": "debug",
            # Every query is slow.
            "SKEIN_SLOW_QUERY_SECONDS": "0.000001",
            # Over one tenant a scan is nothing, and the first may come before recall is ready. The first measurement
            # may come before the queue has its periodic jobs.
            "SKEIN_ADVANCED_WORKER_PAUSE_FACTOR": "0.05",
            "OTEL_BSP_SCHEDULE_DELAY": "50",
        }
        folder: Path = tmp_path_factory.mktemp("traced")
        async with (
            multi_process_cluster(folder, environment=environment, durable=False) as cluster,
            aio.insecure_channel(cluster.addresses["gateway"]) as channel,
        ):
            credentials = cluster.credentials
            authorized = cast("aio.Channel", AuthorizedChannel(channel, credentials.api_key))
            tenant = Tenant(channel=authorized, tenant_id=uuid.UUID(credentials.tenant_id), api_key=credentials.api_key)
            memory = memory_pb2.Memory(title=TITLE, content=CONTENT)
            message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=MESSAGE)
            await tenant.gateway.Remember(
                gateway_pb2.RememberRequest(session_id="s1", memories=[memory], messages=[message])
            )
            yield TracedCluster(cluster=cluster, tenant=tenant, receiver=receiver)


def new_trace() -> tuple[bytes, bytes, dict[str, str]]:
    """Return a trace id, a span id, and the metadata of a call that is part of them (W3C trace context)."""
    trace_id, span_id = secrets.token_bytes(16), secrets.token_bytes(8)
    return trace_id, span_id, {"traceparent": f"00-{trace_id.hex()}-{span_id.hex()}-01"}


def children(
    spans: Sequence[ReceivedSpan], parent: ReceivedSpan | bytes, name: str, kind: Span.SpanKind.ValueType
) -> list[ReceivedSpan]:
    """Find the children of a span with a name and a kind."""
    span_id = parent if isinstance(parent, bytes) else parent.span.span_id
    return [
        each
        for each in spans
        if each.span.parent_span_id == span_id and each.span.name == name and each.span.kind == kind
    ]


async def trace_of_a_recall(traced: TracedCluster) -> tuple[bytes, list[ReceivedSpan]]:
    trace_id, span_id, metadata = new_trace()
    answer = await traced.recall(**metadata)
    assert [hit.memory.content for hit in answer.hits if hit.HasField("memory")] == [CONTENT]

    # The span that ends last is the one that everything else is below.
    def complete(spans: Sequence[ReceivedSpan]) -> bool:
        known = {each.span.span_id for each in spans} | {span_id}
        return (
            any(each.span.name == GATEWAY_RECALL for each in spans)
            and all(each.span.parent_span_id in known for each in spans)
            # Of the two processes each sends its own, and what comes from recall last is its answer to the gateway.
            and any((each.service, each.span.name) == ("skein-recall", RECALL) for each in spans)
        )

    return span_id, await traced.receiver.trace(trace_id, complete)


async def test_a_recall_is_one_trace_from_the_caller_through_the_services_to_the_sql(traced: TracedCluster) -> None:
    parent, spans = await trace_of_a_recall(traced)

    (gateway_span,) = children(spans, parent, GATEWAY_RECALL, Span.SPAN_KIND_SERVER)
    # One for memories and messages together.
    outs = children(spans, gateway_span, RECALL, Span.SPAN_KIND_CLIENT)
    assert gateway_span.service == "skein-gateway"
    assert [out.service for out in outs] == ["skein-gateway"]
    for out in outs:
        (inside,) = children(spans, out, RECALL, Span.SPAN_KIND_SERVER)
        # Beside them there may be a call to auth: for its keys, when the token is signed with one that is new.
        sql = [
            each
            for each in spans
            if each.span.parent_span_id == inside.span.span_id and "db.system.name" in each.attributes
        ]
        assert sql
        assert {each.service for each in (inside, *sql)} == {"skein-recall"}
        assert all(inside.span.start_time_unix_nano <= each.span.start_time_unix_nano for each in sql)
        assert all(inside.span.end_time_unix_nano >= each.span.end_time_unix_nano for each in sql)


async def test_spans_speak_the_current_conventions(traced: TracedCluster) -> None:
    parent, spans = await trace_of_a_recall(traced)

    (gateway_span,) = children(spans, parent, GATEWAY_RECALL, Span.SPAN_KIND_SERVER)
    out = children(spans, gateway_span, RECALL, Span.SPAN_KIND_CLIENT)[0]
    sql = [each for each in spans if "db.system.name" in each.attributes]
    rpc = {"rpc.system.name": "grpc", "rpc.method": GATEWAY_RECALL, "rpc.response.status_code": "OK"}
    host, _, port = traced.cluster.addresses["recall"].rpartition(":")
    request_id = gateway_span.attributes["skein.request_id"]
    assert uuid.UUID(request_id)
    assert gateway_span.attributes == rpc | {"skein.request_id": request_id}
    assert out.attributes == rpc | {"rpc.method": RECALL, "server.address": host, "server.port": int(port)}
    for each in sql:
        assert each.span.kind == Span.SPAN_KIND_CLIENT
        assert each.span.name == each.attributes["db.query.summary"]
        assert (each.attributes["db.system.name"], each.attributes["db.namespace"]) == ("postgresql", DATABASE)
        assert each.attributes["db.operation.name"] in {"SELECT", "WITH", "INSERT", "UPDATE", "DELETE"}
    assert any("$1" in each.attributes["db.query.text"] for each in sql)


async def test_a_span_says_which_process_of_which_version_it_is_of(traced: TracedCluster) -> None:
    _, spans = await trace_of_a_recall(traced)

    made = version("skein-kit")
    assert {each.service for each in spans} >= {"skein-gateway", "skein-recall"}
    for each in spans:
        name = each.service.removeprefix("skein-")
        assert each.resource["service.version"] == made
        assert str(each.resource["service.instance.id"]).endswith(f":{traced.cluster.processes[name]}")


async def test_a_trace_that_a_trusted_caller_does_not_sample_is_recorded_nowhere(traced: TracedCluster) -> None:
    trace_id, _, metadata = new_trace()
    metadata["traceparent"] = metadata["traceparent"].removesuffix("01") + "00"

    await traced.recall(**metadata)
    # Whatever was sent of it has arrived with what came later.
    await trace_of_a_recall(traced)

    assert [str(each) for each in traced.receiver.spans if each.span.trace_id == trace_id] == []
    for service in ("gateway", "recall"):
        assert trace_id.hex() not in await traced.openmetrics(service)


async def test_latencies_lead_to_a_trace_in_openmetrics(traced: TracedCluster) -> None:
    trace_id, _, metadata = new_trace()
    await traced.recall(**metadata)

    gateway, recall = await traced.openmetrics("gateway"), await traced.openmetrics("recall")

    calls = {"service": "skein.gateway.v1.GatewayService", "method": "Recall"}
    assert trace_id.hex() in exemplars(gateway, "skein_rpc_duration_seconds", **calls)
    inside = {"service": "skein.recall.v1.RecallService", "method": "Recall"}
    assert trace_id.hex() in exemplars(recall, "skein_rpc_duration_seconds", **inside)
    queries = exemplars(recall, "skein_database_query_duration_seconds", service="recall", query="get_memories")
    assert trace_id.hex() in queries
    _, plain = await get(traced.cluster.admins["gateway"], "/metrics")
    assert "# {" not in plain


def exemplars(text: str, name: str, **labels: str) -> set[str]:
    """Return the trace ids that the buckets of a histogram lead to."""
    families: Any = openmetrics.text_string_to_metric_families  # It carries no types.
    return {
        sample.exemplar.labels["trace_id"]
        for family in families(text)
        if family.name == name
        for sample in family.samples
        if sample.exemplar is not None and labels.items() <= sample.labels.items()
    }


async def test_a_slow_query_is_found_by_the_request_and_the_trace_that_it_was_for(traced: TracedCluster) -> None:
    trace_id, _, metadata = new_trace()
    request_id = f"request-{uuid.uuid4()}"
    await traced.recall(**metadata, **{"skein-request-id": request_id})

    lines = [json.loads(line) for line in traced.logs()["recall"].splitlines() if line.startswith("{")]
    slow = [line for line in lines if line["event"] == "slow_query" and line.get("request_id") == request_id]
    assert "get_memories" in {line["query_name"] for line in slow}
    for line in slow:
        assert (line["service"], line["level"], line["trace_id"]) == ("recall", "warning", trace_id.hex())
        assert line["milliseconds"] >= 0
        # A query that failed has no count of rows.
        assert isinstance(line["rows"], int) == (line["outcome"] == "ok")
    counted = (await traced.metrics("recall"))["skein_database_slow_queries"]
    assert value(counted, "skein_database_slow_queries_total", service="recall", query="get_memories") >= 1


@pytest.mark.essential
async def test_no_metric_has_anybody_s_id(traced: TracedCluster) -> None:
    await traced.recall()

    for service in registry.NAMES:
        for family in (await traced.metrics(service)).values():
            for sample in family.samples:
                values = " ".join(sample.labels.values())
                assert not re.search(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}|skein_\w+_\w{20}", values), sample


async def test_the_worker_measures_what_no_call_shows(traced: TracedCluster) -> None:
    metrics = {
        "skein_database_bytes",
        "skein_database_table_bytes",
        "skein_database_oldest_transaction_seconds",
        "skein_database_wraparound_ratio",
        "skein_change_log_lag_seconds",
        "skein_worker_queue_jobs",
        "skein_worker_queue_oldest_seconds",
        "skein_embedding_backlog_documents",
        "skein_measurement_last_success_timestamp_seconds",
    }
    missing = metrics
    # Each has a round of its own, and what is in the queue is shown from the first one after the worker filled it.
    for _ in range(600):
        if not (missing := metrics - await shown(traced)):
            break
        await asyncio.sleep(0.1)

    assert not missing


async def shown(traced: TracedCluster) -> set[str]:
    """Return the names of the worker's metrics that have a value."""
    return {name for name, family in (await traced.metrics("worker")).items() if family.samples}


@pytest.mark.parametrize("service", registry.NAMES)
async def test_a_process_says_what_it_is(traced: TracedCluster, service: str) -> None:
    build = (await traced.metrics(service))["skein_build_info"]

    labels = {"version": version("skein-kit"), "schema": str(len(registry.migrations()))}
    assert [(sample.labels, sample.value) for sample in build.samples] == [(labels, 1.0)]


async def test_a_refusal_is_no_error_of_the_server_and_one_of_the_caller(traced: TracedCluster) -> None:
    trace_id, span_id, metadata = new_trace()
    request = memory_pb2.GetMemoryRequest(memory_id=str(uuid.uuid4()))
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await traced.tenant.memory.GetMemory(request, metadata=tuple(metadata.items()))

    name = "skein.memory.v1.MemoryService/GetMemory"
    spans = await traced.receiver.trace(trace_id, lambda spans: sum(each.span.name == name for each in spans) == 3)

    (gateway_span,) = children(spans, span_id, name, Span.SPAN_KIND_SERVER)
    (out,) = children(spans, gateway_span, name, Span.SPAN_KIND_CLIENT)
    assert gateway_span.span.status.code == Status.STATUS_CODE_UNSET
    assert out.span.status == Status(code=Status.STATUS_CODE_ERROR)
    assert (out.attributes["rpc.response.status_code"], out.attributes["error.type"]) == ("NOT_FOUND", "NOT_FOUND")


async def test_a_fault_is_found_by_its_request_and_trace_in_the_log_that_holds_no_content(
    traced: TracedCluster,
) -> None:
    trace_id, _, metadata = new_trace()
    request_id = f"request-{uuid.uuid4()}"
    connection = await asyncpg.connect(traced.cluster.postgres.url(user="postgres", database=DATABASE))
    await connection.execute("ALTER TABLE memory.memories ADD CONSTRAINT nothing_new CHECK (false) NOT VALID")
    try:
        with refused(grpc.StatusCode.INTERNAL, "INTERNAL") as caught:
            await traced.tenant.memory.CreateMemory(
                memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(title=TITLE, content=CONTENT)),
                metadata=(*metadata.items(), ("skein-request-id", request_id)),
            )
    finally:
        await connection.execute("ALTER TABLE memory.memories DROP CONSTRAINT nothing_new")
        await connection.close()

    lines = [json.loads(line) for line in traced.logs()["memory"].splitlines() if line.startswith("{")]
    (fault,) = (line for line in lines if line["event"] == "internal_error" and line.get("request_id") == request_id)
    assert fault["trace_id"] == trace_id.hex()
    assert (fault["tenant_id"], fault["level"]) == (str(traced.tenant.tenant_id), "error")
    assert fault["method"] == "/skein.memory.v1.MemoryService/CreateMemory"
    assert fault["exception"][0]["exc_type"] == "CheckViolationError"
    assert "nothing_new" not in str(caught.value)
    answered = "skein.memory.v1.MemoryService/CreateMemory"
    spans = await traced.receiver.trace(
        trace_id, lambda spans: any((each.service, each.span.name) == ("skein-memory", answered) for each in spans)
    )
    (broken,) = (each for each in spans if each.attributes.get("db.response.status_code") == "23514")
    assert broken.attributes["error.type"] == "23514"
    assert broken.span.status == Status(code=Status.STATUS_CODE_ERROR)
    assert not found_in("".join(str(each.span) for each in spans))


async def test_every_log_line_is_json_with_a_time_and_a_level(traced: TracedCluster) -> None:
    await traced.recall()

    for name, text in traced.logs().items():
        lines = text.splitlines()
        assert lines, name
        for line in lines:
            assert {"event", "level", "timestamp"} <= json.loads(line).keys()


async def test_spans_and_logs_hold_neither_content_nor_keys(traced: TracedCluster) -> None:
    await trace_of_a_recall(traced)
    with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID"):
        async with aio.insecure_channel(traced.cluster.addresses["gateway"]) as channel:
            stub: Any = gateway_pb2_grpc.GatewayServiceStub(channel)
            wrong_key = (("authorization", "Bearer skein_wrong_axolotl"),)
            await stub.Recall(gateway_pb2.RecallRequest(query=QUERY), metadata=wrong_key)

    written = {"spans": "".join(str(each.span) for each in traced.receiver.spans), **traced.logs()}
    secret = traced.tenant.api_key
    keys = (secret, secret.rpartition("_")[2], traced.cluster.credentials.operator_key)

    for name, text in written.items():
        assert not found_in(text), name
        assert not [key for key in (*keys, SYSTEM_KEY, "Bearer ") if key in text], name


def found_in(text: str) -> list[str]:
    lowered = text.lower()
    return [said for said in SAID if said in lowered]


async def test_metrics_count_time_and_gauge_every_call(traced: TracedCluster) -> None:
    before = await traced.metrics("gateway")
    await traced.recall()
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "QUERY_EMPTY"):
        await traced.tenant.gateway.Recall(gateway_pb2.RecallRequest())
    after = await traced.metrics("gateway")

    def grown(name: str, sample: str, **labels: str) -> float:
        return value(after[name], sample, **labels) - value(before[name], sample, **labels)

    call = {"service": "skein.gateway.v1.GatewayService", "method": "Recall"}
    assert grown("skein_rpc_requests", "skein_rpc_requests_total", **call, code="OK") == 1
    assert grown("skein_rpc_requests", "skein_rpc_requests_total", **call, code="INVALID_ARGUMENT") == 1
    assert grown("skein_rpc_duration_seconds", "skein_rpc_duration_seconds_count", **call) == 2
    assert grown("skein_rpc_duration_seconds", "skein_rpc_duration_seconds_sum", **call) > 0
    assert value(after["skein_rpc_in_flight"], "skein_rpc_in_flight", **call) == 0


async def test_metrics_show_what_a_service_rests_on(traced: TracedCluster) -> None:
    await traced.recall()
    recall = await traced.metrics("recall")

    pool = {"service": "recall"}
    connections = sum(
        value(recall["skein_database_pool_connections"], "skein_database_pool_connections", **pool, state=state)
        for state in ("busy", "idle")
    )
    assert connections >= 1
    wait = "skein_database_pool_wait_seconds"
    assert value(recall[wait], f"{wait}_count", **pool) >= 1
    batch = "skein_embedder_batch_duration_seconds"
    assert value(recall[batch], f"{batch}_count") >= 1
    assert value(recall["skein_embedder_texts"], "skein_embedder_texts_total") >= 1
    assert value(recall["skein_embedder_queue_texts"], "skein_embedder_queue_texts") == 0
    lag = "skein_event_loop_lag_seconds"
    assert value(recall[lag], f"{lag}_count") >= 1
    assert value(recall["skein_service_ready"], "skein_service_ready", **pool) == 1


def value(family: Metric, sample: str, **labels: str) -> float:
    """Return a sample's value; 0 before its first time."""
    return sum(each.value for each in family.samples if each.name == sample and labels.items() <= each.labels.items())


@pytest.mark.parametrize("service", registry.NAMES)
async def test_a_process_says_that_it_lives_and_which_of_its_services_are_ready(
    traced: TracedCluster, service: str
) -> None:
    admin = traced.cluster.admins[service]

    assert await get(admin, "/livez") == (200, "ok\n")
    async with asyncio.timeout(60):
        # On a machine that stands still for a moment, one is late to say so.
        while (result := await get(admin, "/readyz"))[0] != 200:
            await asyncio.sleep(0.05)
    assert json.loads(result[1]) == {service: True}


async def listed(channel: aio.Channel) -> set[str]:
    """Ask reflection for the names of the services."""
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(cast("Any", channel))
    requests = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
    (answer,) = [each async for each in stub.ServerReflectionInfo(requests)]
    return {each.name for each in answer.list_services_response.service}


@pytest.mark.parametrize("service", registry.NAMES)
async def test_a_service_says_on_its_own_port_what_it_serves_and_that_it_does(
    traced: TracedCluster, service: str
) -> None:
    address = traced.cluster.addresses[service]
    own_port = aio.insecure_channel(address) if service == "gateway" else service_channel(address, service)
    async with own_port as channel:
        names = await listed(channel)
        checker: Any = health_pb2_grpc.HealthStub(channel)
        own = names - {health.SERVICE_NAME, reflection.SERVICE_NAME}
        states = {(await checker.Check(health_pb2.HealthCheckRequest(service=name))).status for name in ("", *own)}

    assert {health.SERVICE_NAME, reflection.SERVICE_NAME} <= names
    assert {name.split(".")[1] for name in own} <= {service} or service == "gateway"
    assert states == {health_pb2.HealthCheckResponse.SERVING}


async def test_the_gateway_s_reflection_shows_the_public_contract_and_nothing_else(traced: TracedCluster) -> None:
    async with aio.insecure_channel(traced.cluster.addresses["gateway"]) as channel:
        names = await listed(channel)

    own = {"skein.gateway.v1.GatewayService", health.SERVICE_NAME, reflection.SERVICE_NAME}
    assert names == {*PUBLIC_SERVICES, *own}
