"""Protobuf to the items of a context, and packed contexts to protobuf. Long texts are packed in a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import ParamSpec, TypeVar
from uuid import UUID

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import blocks_pb2, curation_pb2, pages_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_gateway.context.model import (
    Citation,
    ContextFormat,
    Item,
    ItemKind,
    PackedContext,
    PackOptions,
    pack,
    page_that_fits,
)
from skein_gateway.recall.rpc import MAX_INLINE_CHARACTERS, subject_of
from skein_gateway.recall.text_match import terms_of
from skein_kit.admission.processor_time import run_in_thread
from skein_kit.json_values import fields
from skein_kit.message_rows import speaker
from skein_kit.rpc.well_known_types import to_timestamp
from skein_kit.text.quoted_text import one_line, one_line_json
from skein_kit.text.token_estimate import DEFAULT_BUDGET

# Memories of one GetLineage, and origins that a citation names.
MAX_LINEAGES = 50
MAX_ORIGINS = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Origins:
    """The nodes where the chains of one memory end."""

    nodes: tuple[curation_pb2.LineageNode, ...] = ()
    # There are more, or some chains were not followed to their end.
    is_truncated: bool = False


def origins_of(response: curation_pb2.GetLineageResponse, memory_ids: Sequence[str]) -> dict[str, Origins]:
    """Return the origins of each requested memory, the nearest first. A memory without sources is its own origin."""
    sources: dict[int, list[int]] = {}
    for edge in response.edges:
        sources.setdefault(edge.memory_number, []).append(edge.source_number)
    numbers = {node.id: node.number for node in response.nodes if node.id}
    return {id_: _origins(response, sources, numbers[id_]) for id_ in memory_ids if id_ in numbers}


def _origins(response: curation_pb2.GetLineageResponse, sources: dict[int, list[int]], number: int) -> Origins:
    pending, seen, found = [number], {number}, list[int]()
    while pending:
        current = pending.pop(0)
        if response.nodes[current].is_origin or not sources.get(current):
            found.append(current)
        for source in sources.get(current, ()):
            if source not in seen:
                seen.add(source)
                pending.append(source)
    return Origins(
        nodes=tuple(response.nodes[one] for one in found[:MAX_ORIGINS]),
        is_truncated=len(found) > MAX_ORIGINS or response.truncated,
    )


ID_BYTES = 16
_VAULT = "knowledge_vault"
_ROLES = {
    number: name.removeprefix("MESSAGE_ROLE_").lower() for name, number in session_pb2.MessageRole.items() if number
}
_KINDS = {
    ItemKind.BLOCK: recall_pb2.ITEM_KIND_BLOCK,
    ItemKind.PROFILE: recall_pb2.ITEM_KIND_PROFILE,
    ItemKind.MEMORY: recall_pb2.ITEM_KIND_MEMORY,
    ItemKind.MESSAGE: recall_pb2.ITEM_KIND_MESSAGE,
}
_NO_ORIGINS = Origins()
P = ParamSpec("P")
T = TypeVar("T")


def pack_options(request: pb.BuildContextRequest) -> PackOptions:
    """Return how a request wants its text packed."""
    return PackOptions(
        token_budget=request.token_budget or DEFAULT_BUDGET,
        terms=terms_of(request.recall.query),
        context_format=ContextFormat(
            markdown=request.format != pb.CONTEXT_FORMAT_TEXT,
            newest_first=request.order == pb.CONTEXT_ORDER_NEWEST_FIRST,
            session_id=request.session_id,
        ),
    )


def recorded_pack_options(inputs: recall_pb2.ContextInputs, query: str) -> PackOptions:
    """Return how a recorded text was packed."""
    return PackOptions(
        token_budget=inputs.token_budget,
        terms=terms_of(query),
        context_format=ContextFormat(
            markdown=not inputs.plain_text, newest_first=inputs.newest_first, session_id=inputs.session_id
        ),
    )


def context_inputs(
    request: pb.BuildContextRequest,
    options: PackOptions,
    response: pb.RecallResponse,
    recent: Sequence[session_pb2.Message],
    page_request: pages_pb2.GetPageRequest | None = None,
) -> recall_pb2.ContextInputs:
    """Return what a text is packed from, beside the answer of its search."""
    inputs = recall_pb2.ContextInputs(
        token_budget=options.token_budget,
        plain_text=not options.context_format.markdown,
        newest_first=options.context_format.newest_first,
        session_id=request.session_id,
        subject_id=subject_of(request.recall),
        hit_count=len(response.hits),
        blocks=[_pin(hit.item_id, hit.block) for hit in response.hits if hit.kind == recall_pb2.ITEM_KIND_BLOCK],
        message_ids=b"".join(UUID(message.message_id).bytes for message in recent),
        message_revisions=[message.revision for message in recent],
        page=page_request,
    )
    if response.HasField("profile"):
        inputs.profile.CopyFrom(_pin(response.profile.subject_id, response.profile))
    return inputs


def _pin(item_id: str, item: blocks_pb2.Block | subjects_pb2.Subject) -> recall_pb2.ItemPin:
    return recall_pb2.ItemPin(
        item_id=item_id,
        revision=item.revision,
        create_time=item.create_time,
        trust=item.trust if item.HasField("trust") else None,
    )


def subjects_of(
    inputs: recall_pb2.ContextInputs, response: pb.RecallResponse, recent: Sequence[session_pb2.Message]
) -> list[str]:
    """Return the people whom the inputs of a text are about."""
    blocks = (hit.block.subject_id for hit in response.hits if hit.kind == recall_pb2.ITEM_KIND_BLOCK)
    messages = (message.subject_id for message in recent)
    return sorted({inputs.subject_id, inputs.profile.item_id, *blocks, *messages} - {""})


def message_pins(inputs: recall_pb2.ContextInputs) -> list[recall_pb2.ItemPin]:
    """Return the messages of the window, oldest first, without their times: their ids are used once."""
    joined = inputs.message_ids
    ids = [str(UUID(bytes=joined[start : start + ID_BYTES])) for start in range(0, len(joined), ID_BYTES)]
    return [
        recall_pb2.ItemPin(item_id=id_, revision=revision)
        for id_, revision in zip(ids, inputs.message_revisions, strict=True)
    ]


def citations(cited: Sequence[Citation], origins: Mapping[str, Origins]) -> list[pb.Citation]:
    """Convert the citations of a text; `origins` are those of memories by their ids."""
    return [
        pb.Citation(
            number=citation.number,
            kind=_KINDS[citation.item.kind],
            item_id=citation.item.item_id,
            session_id=citation.item.session_id,
            create_time=None if citation.item.at is None else to_timestamp(citation.item.at),
            score=citation.item.score,
            relevance=citation.item.relevance,
            truncated=citation.is_cut,
            duplicate_ids=citation.duplicate_ids,
            trust=citation.item.trust,
            origins=origins.get(citation.item.item_id, _NO_ORIGINS).nodes,
            origins_truncated=origins.get(citation.item.item_id, _NO_ORIGINS).is_truncated,
        )
        for citation in cited
    ]


def items_of(
    response: pb.RecallResponse,
    recent: Sequence[session_pb2.Message],
    page: Sequence[Item] = (),
) -> Iterator[Item]:
    """Return the items in order of preference.

    The profile facts, the best hit, the profile, the recent window from its last message backwards, the other hits; a
    distrusted profile comes last. A message in both the window and the hits is one item with the score of the hit, and
    so is a memory in both the page and the hits.
    """
    memories = {hit.item_id: hit for hit in response.hits if hit.kind == recall_pb2.ITEM_KIND_MEMORY}
    yield from (_scored(item, memories.get(item.item_id)) for item in page)
    page_ids = {item.item_id for item in page}
    found = {hit.item_id: hit for hit in response.hits if hit.kind == recall_pb2.ITEM_KIND_MESSAGE}
    latest = [_of_message(message, found.get(message.message_id), is_part=True) for message in reversed(recent)]
    latest_ids = {item.item_id for item in latest}
    hits = [hit_item(hit) for hit in response.hits if hit.item_id not in page_ids]
    profile = profile_item(response.profile) if response.HasField("profile") else None
    yield from hits[:1]
    if profile is not None and not profile.is_distrusted:
        yield profile
    yield from (item for item in latest if not hits or item.item_id != hits[0].item_id)
    yield from (item for item in hits[1:] if item.item_id not in latest_ids)
    if profile is not None and profile.is_distrusted:
        yield profile


def page_items(page: pages_pb2.GetPageResponse, options: PackOptions) -> list[Item]:
    """Return the facts of a profile page that a text has, in order."""
    sentences = (sentence for section in page.sections for sentence in section.sentences)
    return page_that_fits([_of_sentence(one, place) for place, one in enumerate(sentences, start=1)], options)


def _of_sentence(sentence: pages_pb2.PageSentence, place: int) -> Item:
    return Item(
        kind=ItemKind.MEMORY,
        item_id=sentence.memory_id,
        text=sentence.text,
        type=sentence.type,
        at=_moment(sentence.create_time),
        is_part=True,
        revision=sentence.revision,
        page_place=place,
    )


def _scored(item: Item, hit: recall_pb2.Hit | None) -> Item:
    """Return a profile fact with what the search says of it."""
    if hit is None:
        return item
    return replace(item, score=hit.score, relevance=_relevance_of(hit), trust=_trust_of(hit))


def hit_item(hit: recall_pb2.Hit) -> Item:
    """Return the item of a hit."""
    if hit.kind == recall_pb2.ITEM_KIND_MESSAGE:
        return _of_message(hit.message, hit)
    if hit.kind == recall_pb2.ITEM_KIND_BLOCK:
        block = block_item(hit.block)
        return replace(block, item_id=hit.item_id, score=hit.score, relevance=_relevance_of(hit), trust=_trust_of(hit))
    memory = hit.memory
    title = one_line(memory.title or memory.key)
    # Some memories keep everything in their data. That of the vault would reveal the length of a secret.
    body = memory.content or ("" if memory.type == _VAULT else _json_of(memory, "data"))
    return Item(
        kind=ItemKind.MEMORY,
        item_id=hit.item_id,
        text=f"{title}: {body}" if title and body else body or title,
        type=memory.type or "note",
        session_id=memory.session_id,
        at=_moment(memory.create_time),
        score=hit.score,
        relevance=_relevance_of(hit),
        trust=_trust_of(hit),
        revision=memory.revision,
    )


def block_item(block: blocks_pb2.Block) -> Item:
    """Return a block, without a score."""
    return Item(
        kind=ItemKind.BLOCK,
        item_id=block.block_id,
        text=block.value,
        by=block.label,
        at=_moment(block.create_time),
        trust=block.trust if block.HasField("trust") else None,
        revision=block.revision,
    )


def _of_message(message: session_pb2.Message, hit: recall_pb2.Hit | None, *, is_part: bool = False) -> Item:
    return Item(
        kind=ItemKind.MESSAGE,
        item_id=message.message_id,
        text=message.content,
        by=speaker(
            message.name,
            _ROLES.get(message.role, ""),
            message.created_by,
            message.updated_by,
            is_pending=message.pending_approval,
        ),
        session_id=message.session_id,
        sequence=message.sequence,
        at=_moment(message.create_time),
        score=0.0 if hit is None else hit.score,
        relevance=_relevance_of(hit),
        is_part=is_part,
        trust=_trust_of(hit),
        revision=message.revision,
    )


def _trust_of(hit: recall_pb2.Hit | None) -> float | None:
    return None if hit is None or not hit.HasField("trust") else hit.trust


def _relevance_of(hit: recall_pb2.Hit | None) -> float | None:
    return None if hit is None or not hit.HasField("relevance") else hit.relevance


def profile_item(subject: subjects_pb2.Subject) -> Item:
    """Return a person's profile."""
    facts = [
        ("name", one_line(subject.display_name)),
        ("time zone", one_line(subject.timezone)),
        ("profile", _json_of(subject, "profile")),
        ("preferences", _json_of(subject, "preferences")),
    ]
    lines = [f"{name}: {value}" for name, value in facts if value]
    return Item(
        kind=ItemKind.PROFILE,
        item_id=subject.subject_id,
        text="\n".join(lines) or subject.subject_id,
        is_part=True,
        trust=subject.trust if subject.HasField("trust") else None,
        revision=subject.revision,
    )


def _json_of(message: Message, field: str) -> str:
    """Return free JSON on one line, sorted by name; empty without any."""
    values = fields.value_of(message, field)
    return one_line_json(dict(sorted(values.items()))) if values else ""


def _moment(at: Timestamp) -> datetime | None:
    return at.ToDatetime(UTC) if at.seconds or at.nanos else None


async def pack_items(items: Sequence[Item], options: PackOptions) -> PackedContext:
    """Pack items, in a thread if their texts are long."""
    return await run_by_length(items, pack, items, options)


async def run_by_length(items: Iterable[Item], function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run code that works on the texts of items, in a thread if they are long."""
    if sum(len(item.text) for item in items) > MAX_INLINE_CHARACTERS:
        return await run_in_thread(function, *args, **kwargs)
    return function(*args, **kwargs)
