"""The ledgers pages: what prompts have of BuildContext, and one ledger with its items in the order of its turns.

A ledger has no content, so the page shows its items as they are now, with the rights of its reader.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import blocks_pb2, memory_pb2
from skein.session.v1 import ledgers_pb2, session_pb2
from skein_gateway.console.browser_sessions import PageContext
from skein_gateway.console.item_names import message_url
from skein_gateway.console.pages import list_page, page
from skein_gateway.console.problems import PageError, or_page_error
from skein_gateway.oauth.forms import Parameters

_PAGE = 50
# Most ids that fit into one filter condition, and items of a page that are read one by one.
_MEMORIES_AT_ONCE, _MAX_READS = 90, 50
# The newest entries of a ledger that a page shows.
_MAX_ENTRIES = 400
# Why a text was a new first one.
REASONS: Mapping[int, str] = {
    gateway_pb2.REBASE_REASON_REQUESTED: "asked for",
    gateway_pb2.REBASE_REASON_REQUEST_CHANGED: "the request changed",
    gateway_pb2.REBASE_REASON_ITEM_GONE: "an item was gone",
    gateway_pb2.REBASE_REASON_BUDGET: "the budget",
    gateway_pb2.REBASE_REASON_ANSWER_LOST: "a lost answer",
    gateway_pb2.REBASE_REASON_SPACE_LOST: "a lost space",
}
_NO_LEDGER = PageError(title="No ledger", text="There is no such ledger, or it has expired.", status=404)


class _Item(NamedTuple):
    """The text of an item as it is now, and its page."""

    text: str
    url: str


async def list_ledgers(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """List ledgers by maker and name."""
    filters = {name: parameters.get(name).strip() for name in ("principal", "session")}
    response = await or_page_error(
        context.api.sessions.ListContextLedgers(
            ledgers_pb2.ListContextLedgersRequest(
                page_size=_PAGE,
                page_token=parameters.get("page"),
                principal=filters["principal"],
                in_session_id=filters["session"],
            )
        )
    )
    return list_page(
        "ledgers",
        request,
        context,
        parameters,
        response,
        title="Ledgers",
        filters=filters,
        reasons=REASONS,
        sees_all=context.may("audit.read"),
    )


async def show_ledger(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """Show a ledger and its texts so far: a first text, then what each turn appended."""
    list_request = ledgers_pb2.ListContextLedgersRequest(
        ledger_id=parameters.get("id"), principal=parameters.get("principal"), page_size=_PAGE
    )
    response = await or_page_error(context.api.sessions.ListContextLedgers(list_request))
    found = [] if isinstance(response, PageError) else response.ledgers
    ledger = next((one for one in found if one.agent_id == parameters.get("agent")), None)
    if ledger is None:
        failure = response if isinstance(response, PageError) else _NO_LEDGER
        return page("ledger", request, context, status=failure.status, at="ledgers", title="Ledger", failure=failure)
    shown = sorted(
        (entry for entry in ledger.entries if entry.state != ledgers_pb2.LEDGER_ENTRY_STATE_FORMER),
        key=lambda entry: (entry.turn, entry.number),
    )
    return page(
        "ledger",
        request,
        context,
        at="ledgers",
        title=ledger.ledger_id,
        failure=None,
        ledger=ledger,
        turns=[list(entries) for _, entries in groupby(shown[-_MAX_ENTRIES:], key=lambda entry: entry.turn)],
        left_out_count=max(0, len(shown) - _MAX_ENTRIES),
        items=await _items(context, shown[-_MAX_ENTRIES:]),
        reasons=REASONS,
    )


async def _items(context: PageContext, entries: Sequence[ledgers_pb2.LedgerEntry]) -> Mapping[str, _Item]:
    """Return the texts of items that the reader may see, by id. Messages and blocks have no list by ids."""
    memory_ids = _ids(entries, ledgers_pb2.LEDGER_ITEM_KIND_MEMORY)
    message_ids = _ids(entries, ledgers_pb2.LEDGER_ITEM_KIND_MESSAGE)
    block_ids = _ids(entries, ledgers_pb2.LEDGER_ITEM_KIND_BLOCK)
    lists, messages, blocks = await asyncio.gather(
        asyncio.gather(
            *(
                _memories(context, memory_ids[start : start + _MEMORIES_AT_ONCE])
                for start in range(0, len(memory_ids), _MEMORIES_AT_ONCE)
            )
        ),
        asyncio.gather(
            *(
                or_page_error(context.api.sessions.GetMessage(session_pb2.GetMessageRequest(message_id=message_id)))
                for message_id in message_ids[-_MAX_READS:]
            )
        ),
        asyncio.gather(
            *(
                or_page_error(context.api.blocks.GetBlock(blocks_pb2.GetBlockRequest(block_id=block_id)))
                for block_id in block_ids[-_MAX_READS:]
            )
        ),
    )
    items = {
        memory.memory_id: _Item(memory.content, context.url("memory", id=memory.memory_id))
        for memories in lists
        for memory in memories
    }
    for found in messages:
        if not isinstance(found, PageError):
            items[found.message.message_id] = _Item(found.message.content, message_url(context, found.message))
    for known in blocks:
        if not isinstance(known, PageError):
            items[known.block.block_id] = _Item(known.block.value, context.url("block", id=known.block.block_id))
    return items


async def _memories(context: PageContext, memory_ids: Sequence[str]) -> Sequence[memory_pb2.Memory]:
    """Return memories by ids; a list counts as no use of them."""
    list_request = memory_pb2.ListMemoriesRequest(
        page_size=len(memory_ids),
        filter=memory_pb2.MemoryFilter(where=f"memory_id IN ({', '.join(map(json.dumps, memory_ids))})"),
        show_archived=True,
    )
    response = await or_page_error(context.api.memory.ListMemories(list_request))
    return () if isinstance(response, PageError) else response.memories


def _ids(entries: Iterable[ledgers_pb2.LedgerEntry], kind: ledgers_pb2.LedgerItemKind) -> list[str]:
    return [entry.item_id for entry in entries if entry.kind == kind]
