"""The blocks pages: a filtered list with a form for a new block, and one block with its text, agents and history."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from skein.memory.v1 import blocks_pb2, blocks_pb2_grpc
from skein_gateway.console import field_merge
from skein_gateway.console.browser_sessions import PageContext
from skein_gateway.console.pages import form_page, list_page, revision_of
from skein_gateway.console.problems import PageError, or_page_error
from skein_gateway.console.text_diff import mark_differences
from skein_gateway.oauth.forms import FormInvalid, Parameters
from skein_gateway.oauth.pages import see_other

_PAGE = 25
_AGENTS = 100
_REVISIONS = 20
# Revisions that are searched for the one that a form was opened with.
_SEARCHED = 100
_DEFAULT_LIMIT = 2000
# Any number of so many digits fits into an int64.
_MAX_DIGITS = 17
LABELS = {
    "label": "Label",
    "value": "Text",
    "description": "Purpose",
    "limit": "Most characters",
    "subject_id": "Subject",
    "read_only": "Read-only",
}
_LIMIT_NEEDED = "“Most characters” needs a number from 1 to 100,000."


async def list_blocks(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """List the blocks that match the filter."""
    return await _list(request, context, parameters)


async def create(request: Request, context: PageContext, parameters: Parameters, form: Parameters) -> Response:
    """Create a block."""
    values = _typed(form)
    block, failure = _block_of(values, list(LABELS))
    if failure is None:
        create_request = blocks_pb2.CreateBlockRequest(
            block=block, agent_id=form.get("agent_id").strip(), request_id=form.get("request_id")
        )
        response = await or_page_error(context.api.blocks.CreateBlock(create_request))
        if not isinstance(response, PageError):
            return see_other(context.url("block", id=response.block.block_id, done="block-created"))
        failure = response
    return await _list(request, context, parameters, {**values, "agent_id": form.get("agent_id")}, failure)


async def _list(
    request: Request,
    context: PageContext,
    parameters: Parameters,
    values: Mapping[str, str] | None = None,
    failure: PageError | None = None,
) -> Response:
    filters = {name: parameters.get(name).strip() for name in ("label", "subject", "deleted")}
    list_request = blocks_pb2.ListBlocksRequest(
        page_size=_PAGE,
        page_token=parameters.get("page"),
        label=filters["label"],
        subject_id=filters["subject"],
        show_deleted=filters["deleted"] == "on",
    )
    response = await or_page_error(context.api.blocks.ListBlocks(list_request))
    empty = {**dict.fromkeys(LABELS, ""), "limit": str(_DEFAULT_LIMIT), "agent_id": ""}
    return list_page(
        "blocks",
        request,
        context,
        parameters,
        response,
        title="Blocks",
        failure=failure,
        filters=filters,
        values=values or empty,
        is_creating=failure is not None,
        request_id=str(uuid.uuid4()),
        may_write=context.may("memory.write"),
    )


async def show_block(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """Show one block, even a deleted one."""
    block = await _stored(context, parameters.get("id"))
    return await _block_page(request, context, block, _values_of(block))


async def submit(request: Request, context: PageContext, parameters: Parameters, form: Parameters) -> Response:
    """Save, revert, attach, detach, delete or undelete a block."""
    block_id, step, api = parameters.get("id"), form.get("step"), context.api.blocks
    if step == "save":
        return await _save(request, context, block_id, form)
    response = await or_page_error(_step(api, step, block_id, form))
    if isinstance(response, PageError):
        block = await _stored(context, block_id)
        return await _block_page(request, context, block, _values_of(block), response)
    return see_other(context.url("block", id=block_id, done=f"block-{step}"))


def _step(
    blocks: blocks_pb2_grpc.BlockServiceAsyncStub, step: str, block_id: str, form: Parameters
) -> Awaitable[object]:
    """Return the call of a step. Raises FormInvalid for a form that is none of the page's."""
    agent_id, revision = form.get("agent_id").strip(), revision_of(form)
    if step == "revert" and revision and form.get("to_revision").isdecimal():
        to_revision = int(form.get("to_revision")[:_MAX_DIGITS])
        return blocks.RevertBlock(
            blocks_pb2.RevertBlockRequest(block_id=block_id, to_revision=to_revision, revision=revision)
        )
    if step == "attach":
        return blocks.AttachBlock(blocks_pb2.AttachBlockRequest(block_id=block_id, agent_id=agent_id))
    if step == "detach":
        return blocks.DetachBlock(blocks_pb2.DetachBlockRequest(block_id=block_id, agent_id=agent_id))
    if step == "delete" and revision:
        return blocks.DeleteBlock(blocks_pb2.DeleteBlockRequest(block_id=block_id, revision=revision))
    if step == "undelete":
        return blocks.UndeleteBlock(blocks_pb2.UndeleteBlockRequest(block_id=block_id))
    raise FormInvalid("The form is incomplete. Open the block again.")


async def _save(request: Request, context: PageContext, block_id: str, form: Parameters) -> Response:
    typed, revision = _typed(form), revision_of(form)
    if not revision:
        raise FormInvalid("The form names no revision. Open the block again.")
    stored = await _stored(context, block_id)
    if stored.revision != revision:
        return await _conflict_page(request, context, stored, revision, typed)
    changed = field_merge.changed_fields(_values_of(stored), typed)
    if not changed:
        return see_other(context.url("block", id=block_id, done="unchanged"))
    block, failure = _block_of(typed, changed)
    if failure is None:
        block.block_id, block.revision = block_id, revision
        update_request = blocks_pb2.UpdateBlockRequest(block=block)
        update_request.update_mask.paths.extend(changed)
        response = await or_page_error(context.api.blocks.UpdateBlock(update_request))
        if not isinstance(response, PageError):
            return see_other(context.url("block", id=block_id, done="block-save"))
        if response.reason == "REVISION_STALE":
            return await _conflict_page(request, context, await _stored(context, block_id), revision, typed)
        failure = response
    return await _block_page(request, context, stored, typed, failure)


async def _conflict_page(
    request: Request, context: PageContext, stored: blocks_pb2.Block, revision: int, typed: Mapping[str, str]
) -> Response:
    """Show both states, and a form with the person's changes at the current revision."""
    response = await or_page_error(
        context.api.blocks.ListBlockRevisions(
            blocks_pb2.ListBlockRevisionsRequest(block_id=stored.block_id, page_size=_SEARCHED)
        )
    )
    listed = [] if isinstance(response, PageError) else response.revisions
    base = next((one.block for one in listed if one.block.revision == revision), None)
    now = _values_of(stored)
    merged = field_merge.merge(_values_of(base), now, typed) if base is not None else dict(typed)
    failure = PageError(
        title="",
        text="This block changed after you opened it. Compare both, then save yours, or keep what is stored.",
        status=409,
    )
    return await _block_page(
        request, context, stored, merged, failure, differences=field_merge.differences(now, merged, LABELS)
    )


async def _block_page(
    request: Request,
    context: PageContext,
    block: blocks_pb2.Block,
    values: Mapping[str, str],
    failure: PageError | None = None,
    differences: Sequence[field_merge.FieldDifference] = (),
) -> Response:
    agents, revisions = await asyncio.gather(
        or_page_error(
            context.api.blocks.ListBlockAgents(
                blocks_pb2.ListBlockAgentsRequest(block_id=block.block_id, page_size=_AGENTS)
            )
        ),
        or_page_error(
            context.api.blocks.ListBlockRevisions(
                blocks_pb2.ListBlockRevisionsRequest(block_id=block.block_id, page_size=_REVISIONS)
            )
        ),
    )
    return form_page(
        "block",
        request,
        context,
        at="blocks",
        title=block.label,
        failure=failure,
        block=block,
        values=values,
        labels=LABELS,
        differences=differences,
        agents=agents,
        revisions=revisions,
        history=[] if isinstance(revisions, PageError) else _history(block, revisions.revisions),
        may_write=context.may("memory.write"),
    )


def _history(block: blocks_pb2.Block, revisions: Sequence[blocks_pb2.BlockRevision]) -> list[dict[str, Any]]:
    """Return the earlier revisions, newest first, each with what the next one changed in its text."""
    results, following = [], block
    for one in revisions:
        before, after = mark_differences(one.block.value, following.value)
        changed = field_merge.changed_fields(_values_of(one.block), _values_of(following))
        results.append(
            {"revision": one, "before": before, "after": after, "changed": [LABELS[name].lower() for name in changed]}
        )
        following = one.block
    return results


async def _stored(context: PageContext, block_id: str) -> blocks_pb2.Block:
    get_request = blocks_pb2.GetBlockRequest(block_id=block_id, show_deleted=True)
    return (await context.api.blocks.GetBlock(get_request)).block


def _typed(form: Parameters) -> dict[str, str]:
    return {name: form.get(name) for name in LABELS}


def _values_of(block: blocks_pb2.Block) -> dict[str, str]:
    return {
        "label": block.label,
        "value": block.value,
        "description": block.description,
        "limit": str(block.limit or _DEFAULT_LIMIT),
        "subject_id": block.subject_id,
        "read_only": "on" if block.read_only else "",
    }


def _block_of(values: Mapping[str, str], names: Sequence[str]) -> tuple[blocks_pb2.Block, PageError | None]:
    """Return a block with the named fields of the form, or an error for a number that cannot be read."""
    block = blocks_pb2.Block()
    for name in names:
        text = field_merge.line_breaks(values[name])
        if name == "limit":
            if not text.strip().isdecimal() or not 1 <= int(text.strip()[:9]) <= 100_000:  # noqa: PLR2004 - as the contract says.
                return block, PageError(title="", text=_LIMIT_NEEDED, status=400)
            block.limit = int(text)
        elif name == "read_only":
            block.read_only = text == "on"
        else:
            setattr(block, name, text if name == "value" else text.strip())
    return block, None
