"""Composition root of memory."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from skein.memory.v1 import blocks_pb2_grpc, curation_pb2_grpc, history_pb2_grpc, snapshots_pb2_grpc
from skein.memory.v1 import memory_pb2_grpc as rpc
from skein.recall.v1 import recall_pb2_grpc as recall_rpc
from skein_kit.access_log.writer import AccessLog
from skein_kit.background import background_tasks
from skein_kit.cold_storage.files import ColdFiles
from skein_kit.database.monthly_partitions import MonthlyPartitions
from skein_kit.host.process import Service, ServicerRegistry
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.outbound.fetch import OutboundSettings, SafeHttpClient
from skein_kit.policies.store import shared_policy_cache
from skein_kit.quotas.store import QuotaCounter
from skein_kit.search_text.embedding_requests import EmbeddingClient
from skein_kit.search_text.vector_columns import prepare_connection
from skein_memory.access_log.store import AccessLogStore
from skein_memory.aliases.store import AliasStore
from skein_memory.blocks.store import BlockStore
from skein_memory.cold_storage.store import ArchiveStore
from skein_memory.conflicts.store import ConflictStore
from skein_memory.curation.store import CurationStore
from skein_memory.erasure.access_log_erasure import AccessLogErasure
from skein_memory.erasure.archive_purge import ArchivePurgeStore
from skein_memory.erasure.completion import ErasureCompleter
from skein_memory.erasure.store import PurgeStore
from skein_memory.events.store import EventStore
from skein_memory.events.stream import EventStream
from skein_memory.graph.store import GraphStore
from skein_memory.links.store import LinkStore
from skein_memory.listing.store import MemoryListStore
from skein_memory.memories.level_store import LevelStore
from skein_memory.memories.reindex import ReindexStore
from skein_memory.memories.store import MemoryStore
from skein_memory.overview.store import OverviewStore
from skein_memory.parts import Parts
from skein_memory.queries import QUERIES
from skein_memory.servicers import (
    BlockService,
    CurationService,
    HistoryService,
    LinkService,
    MemoryInternalService,
    MemoryService,
    SnapshotService,
)
from skein_memory.settings import MemorySettings, SecretSettings
from skein_memory.snapshots.store import SnapshotStore
from skein_memory.source_trust.store import SourceTrustStore
from skein_memory.store_base import Tables
from skein_memory.tasks.store import TaskStore
from skein_memory.transfer.store import TransferStore
from skein_memory.vault.encryption import MasterKeys
from skein_memory.vault.key_check import MasterKeyCheck
from skein_memory.vault.store import SecretStore, Vault
from skein_memory.webhooks.delivery_store import DeliveryStore
from skein_memory.webhooks.sender import WebhookSender
from skein_memory.webhooks.store import WebhookStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from skein_kit.host.process import Host


@asynccontextmanager
async def start(host: Host) -> AsyncIterator[ServicerRegistry]:
    """Answer for memories, links and their upkeep."""
    settings = MemorySettings.read(host.environment)
    servicers = ServicerRegistry()
    index = recall_rpc.IndexServiceStub(host.channel("recall"))
    embeddings = EmbeddingClient(index, service="memory", at_once=settings.immediate_embeddings)
    sealing = SecretSettings.read(host.environment)
    vault = Vault(MasterKeys.of(sealing.master_key, sealing.master_key_previous))
    async with (
        host.database("memory", servicers, init=prepare_connection) as database,
        AccessLog(database, shared_policy_cache(database), counts_uses=True).open() as access_log,
    ):
        keys = MasterKeyCheck(database, vault.master_keys)
        if not host.repairing:
            servicers.ready_checks.append(keys.ready)
            await keys.at_start()
        months = MonthlyPartitions(database, QUERIES["ensure_month"])
        tables = Tables(
            database,
            requests=IdempotencyStore("memory"),
            quotas=QuotaCounter("memory"),
            policies=shared_policy_cache(database),
            vault=vault,
        )
        changes = EventStore(tables)
        watching = EventStream(
            changes,
            heartbeat_seconds=settings.watch_heartbeat_seconds,
            longest_pause_seconds=settings.watch_pause_seconds,
            room=settings.watch_buffer,
        )
        watches = WebhookStore(tables)
        deliveries = DeliveryStore(tables, watches)
        outbound = SafeHttpClient.of(OutboundSettings.read(host.environment))
        delivering = WebhookSender(deliveries, watches.key_of, outbound)
        erasures = AccessLogErasure(tables, longest_call=timedelta(seconds=host.settings.max_deadline_seconds))
        erasure_completer = ErasureCompleter(erasures)
        cold = ColdFiles(settings.archives(host.environment))
        parts = Parts(
            settings=settings,
            embeddings=embeddings,
            months=months,
            memories=MemoryStore(tables, months),
            finding=MemoryListStore(tables),
            erasing=PurgeStore(tables),
            links=LinkStore(tables),
            graph=GraphStore(tables),
            secrets=SecretStore(tables),
            tasks=TaskStore(tables),
            levels=LevelStore(tables),
            curating=CurationStore(tables),
            source_trust=SourceTrustStore(tables),
            conflicts=ConflictStore(tables),
            aliases=AliasStore(tables),
            outdated=ReindexStore(tables),
            overview=OverviewStore(tables),
            changes=changes,
            watching=watching,
            blocks=BlockStore(tables),
            snapshots=SnapshotStore(tables, months, settings.max_content_characters),
            transfer=TransferStore(tables, months, settings.max_content_characters),
            access_log=AccessLogStore(tables),
            watches=watches,
            archives=ArchiveStore(tables, months, cold),
            expunging=ArchivePurgeStore(tables, cold),
            deliveries=deliveries,
            delivering=delivering,
            erasures=erasures,
            erasure_completer=erasure_completer,
        )
        servicers.add(rpc.add_MemoryServiceServicer_to_server, access_log.watching(MemoryService(parts)))
        servicers.add(rpc.add_LinkServiceServicer_to_server, access_log.watching(LinkService(parts)))
        servicers.add(blocks_pb2_grpc.add_BlockServiceServicer_to_server, access_log.watching(BlockService(parts)))
        servicers.add(history_pb2_grpc.add_HistoryServiceServicer_to_server, access_log.watching(HistoryService(parts)))
        servicers.add(
            curation_pb2_grpc.add_CurationServiceServicer_to_server, access_log.watching(CurationService(parts))
        )
        servicers.add(
            snapshots_pb2_grpc.add_SnapshotServiceServicer_to_server, access_log.watching(SnapshotService(parts))
        )
        servicers.add(rpc.add_UpkeepServiceServicer_to_server, MemoryInternalService(parts))
        async with watching.open(), delivering.open(), background_tasks(erasures=erasure_completer.run):
            yield servicers


SERVICE = Service(name="memory", port=50054, calls=("auth", "recall"), start=start)
