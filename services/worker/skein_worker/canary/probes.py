"""The probes: for each public RPC that reads, requests for the caller's own data and for the other tenant's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from google.protobuf.message import Message

from skein.auth.v1 import accounts_pb2, auth_pb2, certificates_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import (
    access_log_pb2,
    approvals_pb2,
    archives_pb2,
    blocks_pb2,
    curation_pb2,
    history_pb2,
    memory_pb2,
    pages_pb2,
    scores_pb2,
    snapshots_pb2,
    webhooks_pb2,
)
from skein.recall.v1 import recall_pb2
from skein.session.v1 import archives_pb2 as session_archives_pb2
from skein.session.v1 import ledgers_pb2, session_pb2, states_pb2
from skein.tenancy.v1 import jobs_pb2, limits_pb2, members_pb2, spaces_pb2, subjects_pb2, tenancy_pb2
from skein_worker.canary.synthetic_data import (
    AUTH,
    BLOCKS,
    CURATION,
    HISTORY,
    LINKS,
    MEMORIES,
    SESSIONS,
    SNAPSHOTS,
    TENANCY,
    SyntheticData,
)

RECALL = "/skein.recall.v1.RecallService/"
GATEWAY = "/skein.gateway.v1.GatewayService/"
# The position before the first change, so that a stream of changes sends some at once.
_FIRST_POSITION = "A" * 32


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """One RPC, with the builder of its request.

    `request_for` builds a request for the data of one tenant, and runs for each of the two. `request_for_both` builds
    one request for the caller's data and the other tenant's.
    """

    path: str
    request_for: Callable[[SyntheticData], Message] | None = None
    request_for_both: Callable[[SyntheticData, SyntheticData], Message] | None = None
    # The response contains no marks. Then any response for the caller's own data will do, and the response for the
    # other tenant's must be empty.
    has_no_marks: bool = False
    # The name of a row that some clusters do not let tenants have.
    required_row: str = ""
    # It runs between two spaces of one tenant.
    is_of_spaces: bool = False

    @property
    def method(self) -> str:
        """The service and method, as in "MemoryService/GetMemory"."""
        return f"{self.path.rpartition('.')[2]}{' between spaces' if self.is_of_spaces else ''}"

    def is_possible(self, sides: Iterable[SyntheticData]) -> bool:
        """Return whether all tenants have the required row."""
        return not self.required_row or all(self.required_row in data.ids for data in sides)


# Public RPCs that read and cannot show data of another tenant, with the reason.
EXEMPT: Mapping[str, str] = {
    **dict.fromkeys(
        (f"{AUTH}{name}" for name in ("ListAuthSessions", "ListIdentities", "ListMyAuditEvents")),
        "shows accounts their own data; refuses API keys",
    ),
    **dict.fromkeys(
        (f"{AUTH}{name}" for name in ("GetAccount", "ListAccounts")), "for operators, who see every account"
    ),
    **dict.fromkeys(
        (f"{TENANCY}{name}" for name in ("GetOrganization", "ListOrganizations", "GetDeletion", "ListDeletions")),
        "for operators, who see every tenant",
    ),
    **dict.fromkeys(
        (f"{RECALL}{name}" for name in ("GetReindex", "ListReindexes", "CompareEmbeddingModels")),
        "for operators, who see every model",
    ),
    f"{AUTH}ListSigningKeys": "public keys, which belong to no tenant",
    **dict.fromkeys(
        (
            f"{GATEWAY}ReplayContext",
            *(f"{RECALL}{name}" for name in ("GetRecallReceipt", "ListRecallReceipts", "ReplayRecall", "DiffRecall")),
        ),
        "answers of the canary get no receipts, which would be thousands a day",
    ),
    f"{RECALL}EmbedText": "embeds the caller's own text",
    f"{RECALL}ListEmbeddingModels": "models belong to no tenant",
    f"{GATEWAY}GetClusterStatus": "shows services, not tenants",
}


def _by_id_probe(
    path: str, request: type[Message], *, required_row: str = "", has_no_marks: bool = False, **row_names: str
) -> Probe:
    """Return a probe whose request has ids of rows; `row_names` are by field."""

    def build(data: SyntheticData) -> Message:
        return request(**{field: data[name] for field, name in row_names.items()})

    return Probe(path=path, request_for=build, has_no_marks=has_no_marks, required_row=required_row)


def _fixed_probe(path: str, request: type[Message], *, has_no_marks: bool = False, **values: Any) -> Probe:
    """Return a probe whose request is the same for both tenants."""
    return Probe(path=path, request_for_both=lambda _own, _other: request(**values), has_no_marks=has_no_marks)


def _search_probe(path: str, build: Callable[[str], Message]) -> Probe:
    """Return a probe that searches for the words of both tenants."""
    return Probe(path=path, request_for_both=lambda own, other: build(f"{own.word} {other.word}"))


def _custom_probe(path: str, build: Callable[[SyntheticData], Message]) -> Probe:
    """Return a probe whose request needs a builder of its own."""
    return Probe(path=path, request_for=build)


def _visible_filter(data: SyntheticData) -> memory_pb2.MemoryFilter:
    context = memory_pb2.ScopeContext(agent_id=data["agent"], subject_id=data["subject"])
    return memory_pb2.MemoryFilter(visible_to=context)


_OF_AUTH = (
    _fixed_probe(f"{AUTH}GetMe", auth_pb2.GetMeRequest),
    _fixed_probe(f"{AUTH}ListAuditEvents", accounts_pb2.ListAuditEventsRequest),
    _by_id_probe(
        f"{AUTH}GetServiceAccount", accounts_pb2.GetServiceAccountRequest, service_account_id="service_account"
    ),
    _fixed_probe(f"{AUTH}ListServiceAccounts", accounts_pb2.ListServiceAccountsRequest),
    _fixed_probe(f"{AUTH}ListApiKeys", auth_pb2.ListApiKeysRequest),
    _by_id_probe(
        f"{AUTH}GetErasureCertificate", certificates_pb2.GetErasureCertificateRequest, certificate_id="certificate"
    ),
    _fixed_probe(f"{AUTH}ListErasureCertificates", certificates_pb2.ListErasureCertificatesRequest),
    Probe(path=f"{AUTH}Introspect", request_for=lambda data: auth_pb2.IntrospectRequest(credential=data.api_key)),
)
_OF_TENANCY = (
    _by_id_probe(f"{TENANCY}GetTenant", tenancy_pb2.GetTenantRequest, tenant_id="tenant"),
    _fixed_probe(f"{TENANCY}ListTenants", tenancy_pb2.ListTenantsRequest),
    _by_id_probe(f"{TENANCY}GetMember", members_pb2.GetMemberRequest, account_id="member"),
    _fixed_probe(f"{TENANCY}ListMembers", members_pb2.ListMembersRequest),
    _fixed_probe(f"{TENANCY}ListInvitations", members_pb2.ListInvitationsRequest),
    _by_id_probe(f"{TENANCY}GetAgent", tenancy_pb2.GetAgentRequest, agent_id="agent"),
    _fixed_probe(f"{TENANCY}ListAgents", tenancy_pb2.ListAgentsRequest),
    _by_id_probe(f"{TENANCY}GetSpace", spaces_pb2.GetSpaceRequest, space_id="space"),
    _fixed_probe(f"{TENANCY}ListSpaces", spaces_pb2.ListSpacesRequest),
    _by_id_probe(f"{TENANCY}ExplainAccess", spaces_pb2.ExplainAccessRequest, has_no_marks=True, memory_id="memory"),
    _by_id_probe(f"{TENANCY}ListSpaceGrants", spaces_pb2.ListSpaceGrantsRequest, has_no_marks=True, space_id="space"),
    _by_id_probe(f"{TENANCY}GetTool", subjects_pb2.GetToolRequest, tool_id="tool"),
    _fixed_probe(f"{TENANCY}ListTools", subjects_pb2.ListToolsRequest),
    _fixed_probe(f"{TENANCY}GetPolicy", subjects_pb2.GetPolicyRequest),
    _by_id_probe(f"{TENANCY}GetSubject", subjects_pb2.GetSubjectRequest, subject_id="subject"),
    _fixed_probe(f"{TENANCY}ListSubjects", subjects_pb2.ListSubjectsRequest),
    # The responses of these have only numbers.
    _fixed_probe(f"{SESSIONS}ListContextLedgers", ledgers_pb2.ListContextLedgersRequest, has_no_marks=True),
    _fixed_probe(f"{TENANCY}GetJobs", jobs_pb2.GetJobsRequest, has_no_marks=True),
    _fixed_probe(f"{TENANCY}GetQuota", limits_pb2.GetQuotaRequest, has_no_marks=True),
    _fixed_probe(f"{TENANCY}GetUsage", limits_pb2.GetUsageRequest, has_no_marks=True),
)
_OF_SESSION = (
    _by_id_probe(f"{SESSIONS}GetSession", session_pb2.GetSessionRequest, session_id="session"),
    _fixed_probe(f"{SESSIONS}ListSessions", session_pb2.ListSessionsRequest),
    _by_id_probe(f"{SESSIONS}GetMessage", session_pb2.GetMessageRequest, message_id="message"),
    _custom_probe(
        f"{SESSIONS}StreamMessages",
        lambda data: session_pb2.StreamMessagesRequest(session_id=data["session"], after_sequence=0),
    ),
    _by_id_probe(f"{SESSIONS}ListMessages", session_pb2.ListMessagesRequest, session_id="session"),
    _by_id_probe(
        f"{SESSIONS}ListAgentMessages", session_pb2.ListAgentMessagesRequest, agent_id="agent", subject_id="subject"
    ),
    _by_id_probe(f"{SESSIONS}GetRecentWindow", session_pb2.GetRecentWindowRequest, session_id="session"),
    _search_probe(f"{SESSIONS}SearchMessages", lambda query: session_pb2.SearchMessagesRequest(query=query)),
    _by_id_probe(f"{SESSIONS}GetAgentState", states_pb2.GetAgentStateRequest, agent_id="agent", session_id="session"),
    _fixed_probe(f"{SESSIONS}ListAgentStates", states_pb2.ListAgentStatesRequest),
    _by_id_probe(f"{SESSIONS}GetSessionItem", states_pb2.GetSessionItemRequest, session_id="session", key="item"),
    _by_id_probe(f"{SESSIONS}ListSessionItems", states_pb2.ListSessionItemsRequest, session_id="session"),
    _by_id_probe(f"{SESSIONS}ExportSubject", session_pb2.ExportSubjectRequest, subject_id="subject"),
    _fixed_probe(f"{SESSIONS}ListFailedExtractions", session_pb2.ListFailedExtractionsRequest, has_no_marks=True),
    _fixed_probe(f"{SESSIONS}ListArchivedSessions", session_archives_pb2.ListArchivedSessionsRequest),
)
_OF_MEMORY = (
    _by_id_probe(f"{MEMORIES}GetMemory", memory_pb2.GetMemoryRequest, memory_id="memory"),
    _custom_probe(
        f"{MEMORIES}BatchGetMemories",
        lambda data: memory_pb2.BatchGetMemoriesRequest(memory_ids=[data["memory"], data["other_memory"]]),
    ),
    _fixed_probe(f"{MEMORIES}ListMemories", memory_pb2.ListMemoriesRequest, show_archived=True, show_deleted=True),
    _fixed_probe(f"{MEMORIES}ListMemoryTypes", memory_pb2.ListMemoryTypesRequest),
    # By external id, so that the id is a mark in the response.
    Probe(
        path=f"{MEMORIES}ExplainScore",
        request_for=lambda data: scores_pb2.ExplainScoreRequest(memory_id=data.external_id("memory")),
    ),
    _by_id_probe(f"{MEMORIES}ListMemoryVersions", memory_pb2.ListMemoryVersionsRequest, memory_id="memory"),
    _custom_probe(
        f"{MEMORIES}ExportMemories",
        lambda data: memory_pb2.ExportMemoriesRequest(
            selection=memory_pb2.MemorySelection(memory_ids=[data["memory"]])
        ),
    ),
    _by_id_probe(f"{MEMORIES}RevealSecret", memory_pb2.RevealSecretRequest, required_row="vault", memory_id="vault"),
    _fixed_probe(f"{MEMORIES}ListTasks", memory_pb2.ListTasksRequest),
    _fixed_probe(f"{MEMORIES}ListObjectives", memory_pb2.ListObjectivesRequest),
    _fixed_probe(f"{MEMORIES}ListNextActions", memory_pb2.ListNextActionsRequest),
    _by_id_probe(f"{LINKS}GetLink", memory_pb2.GetLinkRequest, link_id="link"),
    _by_id_probe(f"{LINKS}ListLinks", memory_pb2.ListLinksRequest, memory_id="memory"),
    _by_id_probe(f"{LINKS}TraverseLinks", memory_pb2.TraverseLinksRequest, memory_id="memory"),
    _custom_probe(
        f"{LINKS}GetSubgraph",
        lambda data: memory_pb2.GetSubgraphRequest(memory_ids=[data["memory"]], include_memories=True),
    ),
    _by_id_probe(
        f"{LINKS}FindPaths", memory_pb2.FindPathsRequest, from_memory_id="memory", to_memory_id="other_memory"
    ),
    _custom_probe(
        f"{LINKS}SpreadActivation",
        lambda data: memory_pb2.SpreadActivationRequest(seeds=[memory_pb2.ActivationSeed(memory_id=data["memory"])]),
    ),
    _custom_probe(
        f"{LINKS}SuggestLinks",
        lambda data: memory_pb2.SuggestLinksRequest(memory_id=data["alike"], min_score=0.0),
    ),
    _by_id_probe(f"{CURATION}GetSourceTrust", curation_pb2.GetSourceTrustRequest, source="source"),
    _fixed_probe(f"{CURATION}ListSourceTrust", curation_pb2.ListSourceTrustRequest),
    _fixed_probe(f"{CURATION}ListConflicts", curation_pb2.ListConflictsRequest, show_settled=True, all_types=True),
    _fixed_probe(f"{CURATION}ListConflictResolutions", curation_pb2.ListConflictResolutionsRequest),
    _by_id_probe(f"{CURATION}GetCanonicalMemory", curation_pb2.GetCanonicalMemoryRequest, memory_id="alias"),
    _by_id_probe(f"{CURATION}ListAliases", curation_pb2.ListAliasesRequest, memory_id="memory"),
    _custom_probe(f"{CURATION}GetLineage", lambda data: curation_pb2.GetLineageRequest(memory_ids=[data["memory"]])),
    Probe(
        path=f"{CURATION}ListImpacted",
        request_for=lambda data: curation_pb2.ListImpactedRequest(
            source=memory_pb2.SourceReference(kind=memory_pb2.SOURCE_KIND_MEMORY, id=data["memory"])
        ),
        has_no_marks=True,
    ),
    _fixed_probe(f"{CURATION}ListPendingMemories", approvals_pb2.ListPendingMemoriesRequest, has_no_marks=True),
    _fixed_probe(f"{CURATION}ListRefusedFacts", approvals_pb2.ListRefusedFactsRequest, has_no_marks=True),
    _fixed_probe(f"{CURATION}GetReviewQueue", curation_pb2.GetReviewQueueRequest),
    _fixed_probe(
        f"{CURATION}GetTemporalClusters",
        curation_pb2.GetTemporalClustersRequest,
        unit=curation_pb2.CLUSTER_UNIT_HOUR,
    ),
    _fixed_probe(f"{CURATION}GetStatistics", curation_pb2.GetStatisticsRequest),
    _by_id_probe(f"{CURATION}GetPage", pages_pb2.GetPageRequest, page_id="page"),
    _fixed_probe(f"{CURATION}ListPages", pages_pb2.ListPagesRequest),
    _fixed_probe(f"{RECALL}GetSearchCounts", recall_pb2.GetSearchCountsRequest, has_no_marks=True),
    _by_id_probe(f"{BLOCKS}GetBlock", blocks_pb2.GetBlockRequest, block_id="block"),
    _fixed_probe(f"{BLOCKS}ListBlocks", blocks_pb2.ListBlocksRequest, show_deleted=True),
    _by_id_probe(f"{BLOCKS}ListBlockAgents", blocks_pb2.ListBlockAgentsRequest, block_id="block"),
    _by_id_probe(f"{BLOCKS}ListAgentBlocks", blocks_pb2.ListAgentBlocksRequest, agent_id="agent"),
    _by_id_probe(f"{BLOCKS}CompileBlocks", blocks_pb2.CompileBlocksRequest, agent_id="agent"),
    _by_id_probe(f"{BLOCKS}ListBlockRevisions", blocks_pb2.ListBlockRevisionsRequest, block_id="block"),
)
_OF_HISTORY = (
    _fixed_probe(f"{HISTORY}ListChanges", history_pb2.ListChangesRequest),
    _fixed_probe(f"{HISTORY}StreamChanges", history_pb2.StreamChangesRequest, position=_FIRST_POSITION),
    _by_id_probe(f"{HISTORY}GetWebhook", webhooks_pb2.GetWebhookRequest, webhook_id="webhook"),
    _fixed_probe(f"{HISTORY}ListWebhooks", webhooks_pb2.ListWebhooksRequest),
    # The webhook has no deliveries, because its event does not happen.
    _by_id_probe(
        f"{HISTORY}ListWebhookDeliveries",
        webhooks_pb2.ListWebhookDeliveriesRequest,
        has_no_marks=True,
        webhook_id="webhook",
    ),
    _fixed_probe(f"{HISTORY}ListAccessLog", access_log_pb2.ListAccessLogRequest),
    _fixed_probe(f"{HISTORY}ListArchives", archives_pb2.ListArchivesRequest),
    _by_id_probe(f"{SNAPSHOTS}GetSnapshot", snapshots_pb2.GetSnapshotRequest, snapshot_id="snapshot"),
    _fixed_probe(f"{SNAPSHOTS}ListSnapshots", snapshots_pb2.ListSnapshotsRequest),
    _by_id_probe(f"{SNAPSHOTS}DiffSnapshots", snapshots_pb2.DiffSnapshotsRequest, snapshot_id="snapshot"),
    _fixed_probe(f"{SNAPSHOTS}ExportData", snapshots_pb2.ExportDataRequest),
)
_OF_RECALL = (
    _search_probe(f"{RECALL}Recall", lambda query: recall_pb2.RecallRequest(query=query)),
    _by_id_probe(f"{RECALL}FindSimilar", recall_pb2.FindSimilarRequest, item_id="memory"),
    _custom_probe(
        f"{RECALL}BatchGetIndexStates",
        # By external id, so that the id is a mark in the response.
        lambda data: recall_pb2.BatchGetIndexStatesRequest(item_ids=[data.external_id("memory")]),
    ),
    Probe(
        path=f"{GATEWAY}Recall",
        request_for_both=lambda own, other: gateway_pb2.RecallRequest(
            query=f"{own.word} {other.word}", filter=_visible_filter(own)
        ),
    ),
    Probe(
        path=f"{GATEWAY}BuildContext",
        request_for_both=lambda own, other: gateway_pb2.BuildContextRequest(
            recall=gateway_pb2.RecallRequest(query=f"{own.word} {other.word}")
        ),
    ),
)
PROBES: tuple[Probe, ...] = (*_OF_AUTH, *_OF_TENANCY, *_OF_SESSION, *_OF_MEMORY, *_OF_HISTORY, *_OF_RECALL)
# RPCs whose probes find what lies in a space, for credentials that are bound to an agent.
_IN_SPACES = frozenset(
    {
        *(
            f"{MEMORIES}{name}"
            for name in ("GetMemory", "BatchGetMemories", "ListMemories", "ListTasks", "ListObjectives", "ExplainScore")
        ),
        *(f"{LINKS}{name}" for name in ("GetLink", "ListLinks", "TraverseLinks", "GetSubgraph", "FindPaths")),
        *(f"{CURATION}{name}" for name in ("ListConflicts", "GetLineage", "ListImpacted")),
        *(f"{RECALL}{name}" for name in ("Recall", "FindSimilar")),
        f"{GATEWAY}BuildContext",
        f"{TENANCY}ExplainAccess",
    }
)
SPACE_PROBES: tuple[Probe, ...] = (
    *(replace(probe, is_of_spaces=True) for probe in PROBES if probe.path in _IN_SPACES),
    # Without a reader: the credential is bound to its own agent, which no row names.
    Probe(
        path=f"{GATEWAY}Recall",
        request_for_both=lambda own, other: gateway_pb2.RecallRequest(query=f"{own.word} {other.word}"),
        is_of_spaces=True,
    ),
)
