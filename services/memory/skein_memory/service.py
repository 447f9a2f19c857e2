"""Composition root of memory."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from skein.memory.v1 import blocks_pb2_grpc, curation_pb2_grpc, history_pb2_grpc, snapshots_pb2_grpc
from skein.memory.v1 import memory_pb2_grpc as rpc
from skein.recall.v1 import recall_pb2_grpc as recall_rpc
from skein_kit.access_log.writer import AccessLog
from skein_kit.background import alongside
from skein_kit.cold_storage.files import Cold
from skein_kit.database.monthly_partitions import Months
from skein_kit.host.process import Service, Servicers
from skein_kit.idempotency.store import Requests
from skein_kit.outbound.fetch import Outbound, OutboundSettings
from skein_kit.policies.store import policies_of
from skein_kit.quotas.store import Quotas
from skein_kit.search_text.embedding_requests import Embeddings
from skein_kit.search_text.vector_columns import prepare_connection
from skein_memory.access_log.store import AccessLogStore
from skein_memory.aliases.store import AliasStore
from skein_memory.blocks.store import BlockStore
from skein_memory.cold_storage.store import ArchiveStore
from skein_memory.conflicts.store import ConflictStore
from skein_memory.curation.store import CuratingStore
from skein_memory.erasure.access_log_erasure import ErasureStore
from skein_memory.erasure.archive_purge import ExpungingStore
from skein_memory.erasure.completion import ErasureCompleter
from skein_memory.erasure.store import ErasingStore
from skein_memory.events.store import ChangeStore
from skein_memory.events.stream import Watching
from skein_memory.graph.store import GraphStore
from skein_memory.links.store import LinkStore
from skein_memory.listing.store import FindingStore
from skein_memory.memories.level_store import LevelStore
from skein_memory.memories.reindex import OutdatedStore
from skein_memory.memories.store import MemoryStore
from skein_memory.overview.store import OverviewStore
from skein_memory.parts import Parts
from skein_memory.queries import QUERIES
from skein_memory.servicers import (
    BlockServicer,
    CurationServicer,
    HistoryServicer,
    LinkServicer,
    MemoryServicer,
    SnapshotServicer,
    UpkeepServicer,
)
from skein_memory.settings import MemorySettings, SecretSettings
from skein_memory.snapshots.store import SnapshotStore
from skein_memory.source_trust.store import SourceTrustStore
from skein_memory.store_base import Tables
from skein_memory.tasks.store import TaskStore
from skein_memory.transfer.store import TransferStore
from skein_memory.vault.encryption import MasterKeys
from skein_memory.vault.key_check import KeyCheck
from skein_memory.vault.store import SecretStore, Vault
from skein_memory.webhooks.delivery_store import DeliveryStore
from skein_memory.webhooks.sender import Delivering
from skein_memory.webhooks.store import WatchStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from skein_kit.host.process import Host


@asynccontextmanager
async def start(host: Host) -> AsyncIterator[Servicers]:
    """Answer for memories, links and their upkeep."""
    settings = MemorySettings.read(host.environment)
    servicers = Servicers()
    index = recall_rpc.IndexServiceStub(host.channel("recall"))
    embeddings = Embeddings(index, service="memory", at_once=settings.immediate_embeddings)
    sealing = SecretSettings.read(host.environment)
    vault = Vault(MasterKeys.of(sealing.master_key, sealing.master_key_previous))
    async with (
        host.database("memory", servicers, init=prepare_connection) as database,
        AccessLog(database, policies_of(database), counts_uses=True).open() as access_log,
    ):
        keys = KeyCheck(database, vault.master_keys)
        if not host.repairing:
            servicers.ready_checks.append(keys.ready)
            await keys.at_start()
        months = Months(database, QUERIES["ensure_month"])
        tables = Tables(
            database, requests=Requests("memory"), quotas=Quotas("memory"), policies=policies_of(database), vault=vault
        )
        changes = ChangeStore(tables)
        watching = Watching(
            changes,
            heartbeat_seconds=settings.watch_heartbeat_seconds,
            longest_pause_seconds=settings.watch_pause_seconds,
            room=settings.watch_buffer,
        )
        watches = WatchStore(tables)
        deliveries = DeliveryStore(tables, watches)
        outbound = Outbound.of(OutboundSettings.read(host.environment))
        delivering = Delivering(deliveries, watches.key_of, outbound)
        erasures = ErasureStore(tables, longest_call=timedelta(seconds=host.settings.max_deadline_seconds))
        erasure_completer = ErasureCompleter(erasures)
        cold = Cold(settings.archives(host.environment))
        parts = Parts(
            settings=settings,
            embeddings=embeddings,
            months=months,
            memories=MemoryStore(tables, months),
            finding=FindingStore(tables),
            erasing=ErasingStore(tables),
            links=LinkStore(tables),
            graph=GraphStore(tables),
            secrets=SecretStore(tables),
            tasks=TaskStore(tables),
            levels=LevelStore(tables),
            curating=CuratingStore(tables),
            source_trust=SourceTrustStore(tables),
            conflicts=ConflictStore(tables),
            aliases=AliasStore(tables),
            outdated=OutdatedStore(tables),
            overview=OverviewStore(tables),
            changes=changes,
            watching=watching,
            blocks=BlockStore(tables),
            snapshots=SnapshotStore(tables, months, settings.max_content_characters),
            transfer=TransferStore(tables, months, settings.max_content_characters),
            access_log=AccessLogStore(tables),
            watches=watches,
            archives=ArchiveStore(tables, months, cold),
            expunging=ExpungingStore(tables, cold),
            deliveries=deliveries,
            delivering=delivering,
            erasures=erasures,
            erasure_completer=erasure_completer,
        )
        servicers.add(rpc.add_MemoryServiceServicer_to_server, access_log.watching(MemoryServicer(parts)))
        servicers.add(rpc.add_LinkServiceServicer_to_server, access_log.watching(LinkServicer(parts)))
        servicers.add(blocks_pb2_grpc.add_BlockServiceServicer_to_server, access_log.watching(BlockServicer(parts)))
        servicers.add(
            history_pb2_grpc.add_HistoryServiceServicer_to_server, access_log.watching(HistoryServicer(parts))
        )
        servicers.add(
            curation_pb2_grpc.add_CurationServiceServicer_to_server, access_log.watching(CurationServicer(parts))
        )
        servicers.add(
            snapshots_pb2_grpc.add_SnapshotServiceServicer_to_server, access_log.watching(SnapshotServicer(parts))
        )
        servicers.add(rpc.add_UpkeepServiceServicer_to_server, UpkeepServicer(parts))
        async with watching.open(), delivering.open(), alongside(erasures=erasure_completer.run):
            yield servicers


SERVICE = Service(name="memory", port=50054, calls=("auth", "recall"), start=start)
