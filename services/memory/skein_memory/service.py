"""Composition root of memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from skein.memory.v1 import blocks_pb2_grpc, curation_pb2_grpc, history_pb2_grpc, snapshots_pb2_grpc
from skein.memory.v1 import memory_pb2_grpc as rpc
from skein.recall.v1 import recall_pb2_grpc as recall_rpc
from skein_kit.access_log.writer import AccessLog
from skein_kit.approval import ApprovalGate
from skein_kit.background import background_tasks
from skein_kit.calls.call import MAX_DEADLINE_SECONDS
from skein_kit.cold_storage import ColdFiles
from skein_kit.content_guard.endpoint import DetectorEndpoint
from skein_kit.content_guard.guard import ContentGuard
from skein_kit.database.monthly_partitions import MonthlyPartitions
from skein_kit.host.process import Host, Service, ServicerRegistry
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.jobs.store import JobStore
from skein_kit.outbound.fetch import OutboundSettings, SafeHttpClient
from skein_kit.policies.store import shared_policy_cache
from skein_kit.quotas.store import QuotaCounter
from skein_kit.rpc.declared_steps import DeclaredSteps
from skein_kit.search_text.embedding_requests import EmbeddingClient
from skein_kit.search_text.vector_columns import prepare_connection
from skein_memory.access_log.rpc import AccessLogHandlers
from skein_memory.access_log.store import AccessLogStore
from skein_memory.aliases.rpc import AliasHandlers
from skein_memory.aliases.store import AliasStore
from skein_memory.approvals.rpc import ApprovalHandlers, PendingWriteHandlers
from skein_memory.approvals.store import ApprovalStore
from skein_memory.blocks.rpc import BlockHandlers
from skein_memory.blocks.store import BlockStore
from skein_memory.cold_storage.rpc import ArchiveHandlers
from skein_memory.cold_storage.store import ArchiveReader, ArchiveStore
from skein_memory.conflicts.rpc import ConflictHandlers
from skein_memory.conflicts.store import ConflictStore
from skein_memory.curation.rpc import CurationHandlers
from skein_memory.curation.store import CurationStore
from skein_memory.erasure.access_log_erasure import AccessLogErasure
from skein_memory.erasure.archive_purge import ArchivePurgeStore
from skein_memory.erasure.completion import ErasureCompleter
from skein_memory.erasure.rpc import PurgeHandlers
from skein_memory.erasure.store import PurgeStore
from skein_memory.events.rpc import EventHandlers
from skein_memory.events.store import EventStore
from skein_memory.events.stream import MAX_PAUSE_SECONDS, MAX_UNREAD_CHANGES, EventStream
from skein_memory.facts.rpc import FactHandlers
from skein_memory.graph.rpc import GraphHandlers
from skein_memory.graph.store import GraphStore
from skein_memory.lineage.rescoring import TrustRescorer
from skein_memory.lineage.rpc import LineageHandlers
from skein_memory.lineage.store import LineageStore
from skein_memory.links.rpc import LinkHandlers
from skein_memory.links.store import LinkStore
from skein_memory.listing.rpc import ListingHandlers
from skein_memory.listing.store import MemoryListStore
from skein_memory.maintenance.due_tenants import DueTenantHandlers
from skein_memory.maintenance.rpc import Expiry, FormerRowStore, MaintenanceHandlers, Partitions, TenantPurgeStore
from skein_memory.memories.model import MAX_CONTENT_CHARACTERS
from skein_memory.memories.rpc import MemoryHandlers
from skein_memory.memories.store import MemoryStore
from skein_memory.moves.rpc import MoveHandlers
from skein_memory.overview.rpc import OverviewHandlers
from skein_memory.overview.store import OverviewStore
from skein_memory.pages.rpc import PageHandlers
from skein_memory.pages.store import PageStore
from skein_memory.queries import QUERIES
from skein_memory.settings import MemorySettings, SecretSettings
from skein_memory.snapshots.rpc import SnapshotHandlers
from skein_memory.snapshots.store import SnapshotStore
from skein_memory.source_trust.rpc import SourceTrustHandlers
from skein_memory.source_trust.store import SourceTrustStore
from skein_memory.tasks.rpc import TaskHandlers
from skein_memory.tasks.store import TaskStore
from skein_memory.transfer.rpc import TransferHandlers
from skein_memory.transfer.store import TransferStore
from skein_memory.vault.encryption import MasterKeys
from skein_memory.vault.rpc import VaultHandlers
from skein_memory.vault.store import MasterKeyCheck, TenantKeyStore, Vault
from skein_memory.webhooks.delivery_store import DeliveryStore
from skein_memory.webhooks.rpc import WebhookHandlers
from skein_memory.webhooks.sender import WebhookSender
from skein_memory.webhooks.store import WebhookStore


@asynccontextmanager
async def start(host: Host) -> AsyncIterator[ServicerRegistry]:
    """Serve memories, their links and all features around them."""
    settings, secrets = MemorySettings.read(host.environment), SecretSettings.read(host.environment)
    servicers = ServicerRegistry()
    index = recall_rpc.RecallInternalServiceStub(host.channel("recall", caller="memory"))
    embeddings = EmbeddingClient(index, service="memory")
    master_keys = MasterKeys.of(secrets.master_key, secrets.master_key_previous)
    outbound = SafeHttpClient.from_settings(OutboundSettings.read(host.environment))
    cold, max_content = ColdFiles(settings.archives(host.environment)), MAX_CONTENT_CHARACTERS
    quotas, vault = QuotaCounter("memory"), Vault(master_keys)
    async with (
        host.database("memory", servicers, init=prepare_connection) as database,
        AccessLog(database, shared_policy_cache(database), counts_uses=True).open() as access_log,
    ):
        key_check = MasterKeyCheck(database, master_keys)
        if not host.is_repairing:
            servicers.ready_checks.append(key_check.ready)
            await key_check.check_at_start()
        months, policies = MonthlyPartitions(database, QUERIES["ensure_month"]), shared_policy_cache(database)
        guard = ContentGuard(database, policies, DetectorEndpoint.of(host.environment, service="memory"))
        idempotency = IdempotencyStore(database, "memory")
        approvals = ApprovalStore(database, policies)

        memories = MemoryStore(
            database, idempotency=idempotency, quotas=quotas, policies=policies, vault=vault, months=months
        )
        lists = MemoryListStore(database, policies=policies)
        links = LinkStore(database, quotas)
        blocks = BlockStore(database, quotas)
        curation = CurationStore(database, quotas=quotas, policies=policies)
        purges = PurgeStore(database, quotas=quotas, policies=policies)
        archive_reader = ArchiveReader(database, cold=cold)
        archives = ArchiveStore(database, quotas=quotas, months=months, reader=archive_reader, cold=cold)
        # The access log has what callers of every space read.
        access_log_erasure = AccessLogErasure(
            database.for_all_spaces(), longest_call=timedelta(seconds=MAX_DEADLINE_SECONDS)
        )
        erasure_completer = ErasureCompleter(access_log_erasure)
        snapshots = SnapshotStore(database, quotas=quotas, policies=policies, months=months, max_content=max_content)
        transfers = TransferStore(database, quotas=quotas, policies=policies, months=months, max_content=max_content)
        tenant_keys = TenantKeyStore(database, vault)
        webhooks = WebhookStore(database, quotas=quotas, master_keys=master_keys)
        deliveries = DeliveryStore(database, policies=policies, webhooks=webhooks)
        sender = WebhookSender(deliveries, webhooks.signing_key, outbound)
        events = EventStore(database)
        stream = EventStream(
            events,
            heartbeat_seconds=host.settings.stream_heartbeat_seconds,
            longest_pause_seconds=MAX_PAUSE_SECONDS,
            capacity=MAX_UNREAD_CHANGES,
        )
        accesses, jobs, pending_writes = (
            AccessLogStore(database),
            JobStore(database),
            PendingWriteHandlers(approvals, idempotency, memories=memories, guard=guard, max_content=max_content),
        )

        lineage_handlers, access_log_handlers, graph_handlers = (
            # Ratings hold in every space; only trust is written, which lies with its memory.
            LineageHandlers(LineageStore(database), TrustRescorer(database.for_all_spaces())),
            AccessLogHandlers(accesses, access_log),
            GraphHandlers(GraphStore(database, policies=policies), lists=lists),
        )
        purge_handlers = PurgeHandlers(
            purges,
            idempotency,
            archives=ArchivePurgeStore(database, reader=archive_reader, cold=cold),
            lists=lists,
            access_log=access_log_erasure,
            completer=erasure_completer,
        )
        webhook_handlers = WebhookHandlers(webhooks, idempotency, deliveries=deliveries, sender=sender)
        servicers.steps = DeclaredSteps(
            access_log=access_log,
            refusals=access_log.refusals,
            gate=ApprovalGate(database, policies),
            guard=guard,
            waiting=pending_writes.by_path(),
            locate=blocks.locate,
        )
        servicers.add(
            rpc.add_MemoryServiceServicer_to_server,
            MemoryHandlers(
                memories,
                idempotency,
                guard=guard,
                embeddings=embeddings,
                suggest_links=graph_handlers.suggestions,
                reinforce=curation.reinforce_alone,
                max_content=max_content,
            ),
            ListingHandlers(lists, memories=memories),
            purge_handlers,
            VaultHandlers(tenant_keys, idempotency, memories=memories),
            TaskHandlers(TaskStore(database), idempotency, memories=memories, embeddings=embeddings),
            CurationHandlers(
                curation,
                idempotency,
                memories=memories,
                embeddings=embeddings,
                jobs=jobs,
                max_content=max_content,
            ),
            MoveHandlers(idempotency),
        )
        servicers.add(
            rpc.add_LinkServiceServicer_to_server,
            LinkHandlers(links, idempotency),
            graph_handlers,
        )
        servicers.add(
            blocks_pb2_grpc.add_BlockServiceServicer_to_server,
            BlockHandlers(blocks, idempotency, guard),
            purge_handlers,
            MoveHandlers(idempotency),
        )
        servicers.add(
            history_pb2_grpc.add_HistoryServiceServicer_to_server,
            EventHandlers(events, stream=stream),
            webhook_handlers,
            access_log_handlers,
            ArchiveHandlers(archives, idempotency, embeddings=embeddings),
        )
        servicers.add(
            curation_pb2_grpc.add_CurationServiceServicer_to_server,
            SourceTrustHandlers(SourceTrustStore(database), idempotency),
            ConflictHandlers(ConflictStore(database, quotas=quotas, policies=policies), idempotency),
            AliasHandlers(AliasStore(database), idempotency),
            OverviewHandlers(OverviewStore(database, policies=policies)),
            lineage_handlers,
            ApprovalHandlers(
                approvals,
                idempotency,
                memories=memories,
                guard=guard,
                embeddings=embeddings,
                max_content=max_content,
            ),
            PageHandlers(PageStore(database, quotas), idempotency, lists=lists),
        )
        servicers.add(
            snapshots_pb2_grpc.add_SnapshotServiceServicer_to_server,
            SnapshotHandlers(snapshots, idempotency, embeddings=embeddings),
            TransferHandlers(transfers, idempotency, guard=guard, embeddings=embeddings),
        )
        servicers.add(
            rpc.add_MemoryInternalServiceServicer_to_server,
            DueTenantHandlers(database, master_key=master_keys.current),
            MaintenanceHandlers(
                Expiry(
                    memories,
                    purges=purges,
                    key_stores=(tenant_keys, webhooks),
                    deliveries=deliveries,
                    blocks=blocks,
                    approvals=approvals,
                    erasure_completer=erasure_completer,
                    jobs=jobs,
                ),
                partitions=Partitions(months, access_log=accesses, access_log_months=settings.access_log_months),
                memories=memories,
                curation=curation,
                snapshots=snapshots,
                archives=archives,
                purges=purges,
                former_rows=FormerRowStore(database),
                tenants=TenantPurgeStore(database),
                jobs=jobs,
            ),
            webhook_handlers,
            VaultHandlers(tenant_keys, idempotency, memories=memories),
            lineage_handlers,
            access_log_handlers,
            FactHandlers(memories, purges, approvals),
            pending_writes,
        )
        async with stream.open(), sender.open(), background_tasks(erasures=erasure_completer.run):
            yield servicers


SERVICE = Service(name="memory", port=50054, depends_on=("auth", "recall"), start=start)
