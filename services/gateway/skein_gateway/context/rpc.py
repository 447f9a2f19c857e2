"""BuildContext: the hits of a recall and the recent window of a session, packed into one text with citations."""

from __future__ import annotations

import asyncio
from datetime import UTC
from functools import partial
from typing import TYPE_CHECKING

import grpc
from grpc import aio

from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import curation_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein_gateway.context.lineage import MAX_LINEAGES, Origins, origins_of
from skein_gateway.context.model import ContextFormat, Item, ItemKind, PackedContext, pack
from skein_gateway.recall.rpc import (
    MAX_INLINE_CHARACTERS,
    ArmOutcome,
    ArmResult,
    arm_timeout_seconds,
    as_of_time,
    call_arm,
    enforce_partial_policy,
)
from skein_gateway.recall.text_match import terms_of
from skein_kit.calls.call import caller as caller_of
from skein_kit.identity.permissions import ACCESS_RULES
from skein_kit.ids import now
from skein_kit.json_values import exact, fields
from skein_kit.policies.history import read_as_of_time
from skein_kit.rpc.well_known_types import to_timestamp
from skein_kit.text.token_estimate import DEFAULT_BUDGET

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from google.protobuf.message import Message
    from google.protobuf.timestamp_pb2 import Timestamp

    from skein.memory.v1 import curation_pb2_grpc
    from skein.session.v1 import session_pb2_grpc
    from skein.tenancy.v1 import subjects_pb2
    from skein_gateway.recall.rpc import RecallHandler
    from skein_kit.calls.call import Context

# Hits that the packer chooses from.
DEFAULT_LIMIT = 30
# Most messages of the recent window.
MAX_RECENT = 200
_VAULT = "knowledge_vault"
_WINDOW = ACCESS_RULES["/skein.session.v1.SessionService/GetRecentWindow"]
_ROLES = {
    number: name.removeprefix("MESSAGE_ROLE_").lower() for name, number in session_pb2.MessageRole.items() if number
}
_KINDS = {
    ItemKind.BLOCK: recall_pb2.ITEM_KIND_BLOCK,
    ItemKind.PROFILE: recall_pb2.ITEM_KIND_PROFILE,
    ItemKind.MEMORY: recall_pb2.ITEM_KIND_MEMORY,
    ItemKind.MESSAGE: recall_pb2.ITEM_KIND_MESSAGE,
}


class ContextHandler:
    """The BuildContext RPC."""

    def __init__(
        self,
        recall: RecallHandler,
        sessions: session_pb2_grpc.SessionServiceAsyncStub,
        curation: curation_pb2_grpc.CurationServiceAsyncStub,
        *,
        lineage_seconds: float,
    ) -> None:
        """Recall through `recall`; read recent windows from `sessions`, and lineages from `curation` in this time."""
        self._recall = recall
        self._sessions = sessions
        self._curation = curation
        self._lineage_seconds = lineage_seconds

    async def BuildContext(self, request: pb.BuildContextRequest, context: Context) -> pb.BuildContextResponse:
        read_as_of_time(request.recall, at=now(), within="recall.")
        recall_request = pb.RecallRequest()
        recall_request.CopyFrom(request.recall)
        recall_request.limit = request.recall.limit or DEFAULT_LIMIT
        recall_request.show_superseded = False
        # Packing finds duplicates of all arms, near ones too.
        recall_request.show_duplicates = True
        extra_arms = []
        if request.session_id:
            _WINDOW.check(caller_of(context))
            extra_arms.append(partial(self._window, request))
        result = await self._recall.call_arms(recall_request, context, *extra_arms)
        enforce_partial_policy(result.outcomes, recall_request.on_partial)
        response = result.response(recall_request.limit)
        recent = [message for arm_result in result.results for message in arm_result.recent]
        packed = await _pack(list(items_of(response, recent)), request)
        origins = await self._origins(request, packed, context) if request.cite_origins else {}
        return pb.BuildContextResponse(
            text=packed.text,
            citations=[
                pb.Citation(
                    number=citation.number,
                    kind=_KINDS[citation.item.kind],
                    item_id=citation.item.item_id,
                    session_id=citation.item.session_id,
                    create_time=None if citation.item.at is None else to_timestamp(citation.item.at),
                    score=citation.item.score,
                    truncated=citation.is_cut,
                    duplicate_ids=citation.duplicate_ids,
                    trust=citation.item.trust,
                    origins=origins[citation.item.item_id].nodes if citation.item.item_id in origins else (),
                    origins_truncated=citation.item.item_id in origins and origins[citation.item.item_id].is_truncated,
                )
                for citation in packed.citations
            ],
            token_count=packed.token_count,
            omitted_count=packed.omitted_count,
            arms=response.arms,
            incomplete=response.incomplete,
            model=response.model,
            emptied_by=response.emptied_by,
            formula=response.formula,
            nothing_relevant=response.nothing_relevant,
            pending_embedding_count=response.pending_embedding_count,
            purged_count=response.purged_count,
            receipt_id=response.receipt_id,
        )

    async def _origins(
        self, request: pb.BuildContextRequest, packed: PackedContext, context: Context
    ) -> dict[str, Origins]:
        """Return where the chains of the cited memories end; of lineages that cannot be read, that they are missing."""
        memory_ids = [one.item.item_id for one in packed.citations if one.item.kind is ItemKind.MEMORY]
        origins: dict[str, Origins] = {}
        for start in range(0, len(memory_ids), MAX_LINEAGES):
            batch = memory_ids[start : start + MAX_LINEAGES]
            has_reader = request.recall.filter.HasField("visible_to")
            lineage_request = curation_pb2.GetLineageRequest(
                memory_ids=batch,
                visible_to=request.recall.filter.visible_to if has_reader else None,
                as_of_time=as_of_time(request.recall),
            )
            seconds = arm_timeout_seconds(context.time_remaining(), self._lineage_seconds)
            try:
                timed = await call_arm(self._curation.GetLineage(lineage_request, timeout=seconds))
            except aio.AioRpcError as error:
                # A memory that was deleted after the search has no lineage any more.
                if error.code() is not grpc.StatusCode.NOT_FOUND:
                    raise
                origins |= dict.fromkeys(batch, Origins(is_truncated=True))
                continue
            if timed.response is None:
                origins |= dict.fromkeys(batch, Origins(is_truncated=True))
            else:
                origins |= origins_of(timed.response, batch)
        return origins

    async def _window(self, request: pb.BuildContextRequest, arm_seconds: float) -> ArmResult:
        half = max(1, (request.token_budget or DEFAULT_BUDGET) // 2)
        window_request = session_pb2.GetRecentWindowRequest(
            session_id=request.session_id, token_budget=half, as_of_time=as_of_time(request.recall)
        )
        timed = await call_arm(self._sessions.GetRecentWindow(window_request, timeout=arm_seconds))
        if timed.response is None:
            return ArmResult(outcomes=(ArmOutcome.failed(pb.ARM_WINDOW, timed),))
        recent = timed.response.messages[-MAX_RECENT:]
        outcome = ArmOutcome(arm=pb.ARM_WINDOW, state=pb.ARM_STATE_OK, seconds=timed.seconds, hit_count=len(recent))
        return ArmResult(outcomes=(outcome,), recent=recent)


async def _pack(items: Sequence[Item], request: pb.BuildContextRequest) -> PackedContext:
    context_format = ContextFormat(
        markdown=request.format != pb.CONTEXT_FORMAT_TEXT,
        newest_first=request.order == pb.CONTEXT_ORDER_NEWEST_FIRST,
        session_id=request.session_id,
    )

    def run() -> PackedContext:
        return pack(
            items,
            token_budget=request.token_budget or DEFAULT_BUDGET,
            terms=terms_of(request.recall.query),
            context_format=context_format,
        )

    if sum(len(item.text) for item in items) > MAX_INLINE_CHARACTERS:
        # A large text would block the event loop.
        return await asyncio.to_thread(run)
    return run()


def items_of(response: pb.RecallResponse, recent: Sequence[session_pb2.Message]) -> Iterator[Item]:
    """Return the items in order of preference.

    The best hit, the profile, the recent window from its last message backwards, the other hits. A message in both the
    window and the hits is one item with the score of the hit.
    """
    found = {hit.item_id: hit for hit in response.hits if hit.kind == recall_pb2.ITEM_KIND_MESSAGE}
    latest = [_of_message(message, found.get(message.message_id), is_part=True) for message in reversed(recent)]
    latest_ids = {item.item_id for item in latest}
    hits = [_of_hit(hit) for hit in response.hits]
    yield from hits[:1]
    if response.HasField("profile"):
        yield _of_profile(response.profile)
    yield from (item for item in latest if not hits or item.item_id != hits[0].item_id)
    yield from (item for item in hits[1:] if item.item_id not in latest_ids)


def _of_hit(hit: recall_pb2.Hit) -> Item:
    if hit.kind == recall_pb2.ITEM_KIND_MESSAGE:
        return _of_message(hit.message, hit)
    if hit.kind == recall_pb2.ITEM_KIND_BLOCK:
        block = hit.block
        return Item(
            kind=ItemKind.BLOCK,
            item_id=hit.item_id,
            text=block.value,
            by=block.label,
            at=_moment(block.create_time),
            score=hit.score,
        )
    memory = hit.memory
    title = memory.title or memory.key
    # Some memories keep everything in their data. That of the vault would reveal the length of a secret.
    body = memory.content or ("" if memory.type == _VAULT else "\n".join(_properties(memory, "data")))
    return Item(
        kind=ItemKind.MEMORY,
        item_id=hit.item_id,
        text=f"{title}: {body}" if title and body else body or title,
        type=memory.type or "note",
        session_id=memory.session_id,
        at=_moment(memory.create_time),
        score=hit.score,
        trust=_trust_of(hit),
    )


def _of_message(message: session_pb2.Message, hit: recall_pb2.Hit | None, *, is_part: bool = False) -> Item:
    return Item(
        kind=ItemKind.MESSAGE,
        item_id=message.message_id,
        text=message.content,
        by=message.name or _ROLES.get(message.role, ""),
        session_id=message.session_id,
        sequence=message.sequence,
        at=_moment(message.create_time),
        score=0.0 if hit is None else hit.score,
        is_part=is_part,
        trust=_trust_of(hit),
    )


def _trust_of(hit: recall_pb2.Hit | None) -> float | None:
    return None if hit is None or not hit.HasField("trust") else hit.trust


def _of_profile(subject: subjects_pb2.Subject) -> Item:
    facts = [("name", subject.display_name), ("time zone", subject.timezone)]
    lines = [f"{name}: {value}" for name, value in facts if value]
    lines = [*lines, *_properties(subject, "profile"), *_properties(subject, "preferences")]
    return Item(
        kind=ItemKind.PROFILE,
        item_id=subject.subject_id,
        text="\n".join(lines) or subject.subject_id,
        is_part=True,
    )


def _properties(message: Message, field: str) -> list[str]:
    """Return one line per property, sorted by name."""
    values = fields.value_of(message, field) or {}
    return [f"{name}: {value if isinstance(value, str) else _json(value)}" for name, value in sorted(values.items())]


def _json(value: object) -> str:
    return exact.dumps(value, sort_keys=True, separators=(", ", ": "))


def _moment(at: Timestamp) -> datetime | None:
    return at.ToDatetime(UTC) if at.seconds or at.nanos else None
