"""The worker's extraction, called directly, and a tenant whose conversations are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fix_cluster import SYSTEM_KEY, Cluster, Stubs, Tenant
from google.protobuf.field_mask_pb2 import FieldMask

from skein.auth.v1 import auth_pb2, auth_pb2_grpc
from skein.memory.v1 import memory_pb2, memory_pb2_grpc
from skein.session.v1 import session_pb2, session_pb2_grpc
from skein.tenancy.v1 import subjects_pb2
from skein_cluster import registry
from skein_kit.outbound.fetch import SafeHttpClient
from skein_kit.settings import ProcessSettings
from skein_worker.extraction.language_model import FactModel, FactModels
from skein_worker.rounds.extraction import ExtractionJob, FactWriter
from skein_worker.rounds.model_extraction import ModelExtractionJob
from skein_worker.rounds.tenant_visits import TenantVisitor
from skein_worker.settings import WorkerSettings
from skein_worker.system_identity import SystemIdentity


def extraction_job(cluster: Cluster) -> ExtractionJob:
    """Return a worker's extraction that calls the services of a cluster."""
    return job_of(settings_of(cluster), cluster.addresses)


def settings_of(cluster: Cluster) -> dict[str, str]:
    """Return the settings of a process that calls the services of a cluster."""
    url = cluster.postgres.url(user="postgres", database="skein")
    return {**cluster.environment, "SKEIN_DATABASE_URL": url}


def job_of(
    values: Mapping[str, str], addresses: Mapping[str, str], wrap: Callable[[Any], Any] = lambda stub: stub
) -> ExtractionJob:
    """Return the same with its stubs wrapped."""
    return jobs_of(values, addresses, wrap).rules


@dataclass(frozen=True)
class Jobs:
    """A worker's extraction by rules and by a language model."""

    rules: ExtractionJob
    model: ModelExtractionJob

    async def read_all(self, tenant_id: str) -> None:
        """Read all messages that are due."""
        while await self.rules.extract_session(tenant_id):
            pass
        while await self.model.read_messages(tenant_id):
            pass


def jobs_of(
    values: Mapping[str, str],
    addresses: Mapping[str, str],
    wrap: Callable[[Any], Any] = lambda stub: stub,
    *,
    model: FactModel | None = None,
    outbound: SafeHttpClient | None = None,
    settings: WorkerSettings | None = None,
) -> Jobs:
    """Return a worker's jobs with a language model, and with those that `outbound` lets tenants have."""
    host = registry.host_of(ProcessSettings.read(values), values)
    host.addresses.update(addresses)
    system = SystemIdentity(
        auth_pb2_grpc.AuthInternalServiceStub(host.channel("auth", caller="worker")), key=SYSTEM_KEY
    )
    channel = host.channel("memory", caller="worker")
    memory = wrap(memory_pb2_grpc.MemoryInternalServiceStub(channel))
    session = wrap(session_pb2_grpc.SessionInternalServiceStub(host.channel("session", caller="worker")))
    writer = FactWriter(wrap(memory_pb2_grpc.MemoryServiceStub(channel)), memory, system)
    models = FactModels(model, outbound=outbound, seconds=20.0)
    rest = (system, TenantVisitor(system, at_once=2), settings or WorkerSettings(), writer, models)
    return Jobs(ExtractionJob(session, memory, *rest), ModelExtractionJob(session, memory, *rest))


async def extractor_token(
    cluster: Cluster, tenant_id: str, *, key: str = SYSTEM_KEY, extractor: str = "rules@4", space_id: str = ""
) -> str:
    """Return a worker's token as an extractor in a space; as the system where that is empty."""
    credential = auth_pb2.SystemCredential(key=key, service="worker", extractor=extractor, space_id=space_id)
    request = auth_pb2.ExchangeRequest(system=credential, tenant_id=tenant_id)
    return (await auth_pb2_grpc.AuthInternalServiceStub(cluster.shared("auth")).Exchange(request)).token


async def extract(cluster: Cluster, tenant: Tenant) -> None:
    """Read all messages of a tenant that are due."""
    job = extraction_job(cluster)
    while await job.extract_session(str(tenant.tenant_id)):
        pass


async def learning_tenant(cluster: Cluster, **policy: object) -> Tenant:
    """Return a tenant whose messages are due as soon as they are written."""
    tenant = await cluster.new_tenant()
    values = {"extraction": "rules", "extraction_messages": 1, **policy}
    await tenant.tenancy.UpdatePolicy(
        subjects_pb2.UpdatePolicyRequest(
            policy=subjects_pb2.Policy(**values),  # type: ignore[arg-type]  # Each has the type of its field.
            update_mask=FieldMask(paths=list(values)),
        )
    )
    return tenant


async def say(
    tenant: Tenant, *texts: str, session_id: str = "talk", subject_id: str = "mira", role: str = "USER"
) -> Sequence[session_pb2.Message]:
    """Append messages about a person to a session; return them as stored."""
    messages = [session_pb2.Message(role=f"MESSAGE_ROLE_{role}", content=text, subject_id=subject_id) for text in texts]
    request = session_pb2.AppendMessagesRequest(session_id=session_id, messages=messages, create_session=True)
    return (await tenant.sessions.AppendMessages(request)).messages


async def keep_refused(cluster: Cluster, tenant: Tenant, content: str, *, reason: str = "question") -> str:
    """Keep a refused fact of a new message, whose last characters say it; return the id of the message."""
    (message,) = await say(tenant, f"Hello! {content}")
    source = memory_pb2.SourceReference(
        kind=memory_pb2.SOURCE_KIND_MESSAGE,
        id=message.message_id,
        start_character=len("Hello! "),
        end_character=len(message.content),
    )
    memory = memory_pb2.Memory(content=content, subject_id="mira", session_id="talk", derived_from=[source])
    request = memory_pb2.KeepRefusedFactsRequest(facts=[memory_pb2.RefusedFact(memory=memory, reason=reason)])
    async with cluster.direct("memory", caller="worker") as channel:
        extractor = Stubs.of(channel, await extractor_token(cluster, str(tenant.tenant_id)))
        await memory_pb2_grpc.MemoryInternalServiceStub(extractor.channel).KeepRefusedFacts(request)
    return message.message_id


async def facts(tenant: Tenant) -> list[memory_pb2.Memory]:
    """Return all memories of a tenant, oldest first."""
    page = await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())
    return list(reversed(page.memories))


async def current(tenant: Tenant) -> list[str]:
    """Return the contents of the memories that have not ended."""
    return [memory.content for memory in await facts(tenant) if not memory.HasField("valid_to_time")]
