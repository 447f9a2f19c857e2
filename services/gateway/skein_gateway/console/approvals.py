"""The approvals page: memories and messages that wait, each with a form that approves, edits or refuses it."""

from __future__ import annotations

from collections.abc import Sequence

from google.protobuf import json_format
from google.protobuf.field_mask_pb2 import FieldMask
from starlette.requests import Request
from starlette.responses import Response

from skein.memory.v1 import approvals_pb2, memory_pb2
from skein.session.v1 import session_pb2
from skein_gateway.console import formats
from skein_gateway.console.browser_sessions import PageContext
from skein_gateway.console.pages import list_page
from skein_gateway.console.problems import PageError, or_page_error, page_error_of
from skein_gateway.console.text_diff import mark_differences
from skein_gateway.console.waiting import MAX_COUNTED
from skein_gateway.oauth.forms import FormInvalid, Parameters
from skein_gateway.oauth.pages import see_other
from skein_kit.text.invisible import has_invisible, show_invisible

_PAGE = MAX_COUNTED
# Digits of the highest revision.
_MAX_DIGITS = 18
# Decisions of the form, and the confirmation of each.
_DONE = {"approve": "approved", "edit": "approved", "refuse": "refused"}
_EDITABLE = ("title", "content")
# Fields of a memory that its source sets, in the order of the page.
_FIELDS = (
    "type", "title", "key", "content", "tags", "data", "metadata", "scope", "subject_id", "agent_id", "session_id",
    "source", "source_agent", "derived_from", "external_id", "level", "confidence", "importance", "valid_from_time",
    "valid_to_time", "expire_time", "archive_time", "create_time",
)  # fmt: skip


async def show(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """List what waits for approval."""
    return await _list(request, context, parameters)


async def submit(request: Request, context: PageContext, parameters: Parameters, form: Parameters) -> Response:
    """Decide as the form says."""
    decision = form.get("decision")
    if decision not in _DONE:
        raise FormInvalid("Choose a decision, then send the form again.")
    try:
        if form.get("kind") == "message":
            await _decide_on_message(context, decision, form)
        elif decision == "refuse":
            await context.api.curation.RefuseMemory(approvals_pb2.RefuseMemoryRequest(pending_id=form.get("id")))
        else:
            await context.api.curation.ApproveMemory(_approval(form, is_edited=decision == "edit"))
    except Exception as error:  # noqa: BLE001 - page_error_of raises unexpected errors again.
        return await _list(request, context, parameters, page_error_of(error))
    finally:
        context.waiting.forget(context.tenant_id)
    return see_other(context.url("approvals", done=_DONE[decision]))


async def _decide_on_message(context: PageContext, decision: str, form: Parameters) -> None:
    """Approve a message, as written or as edited, or delete it."""
    sessions, message_id = context.api.sessions, form.get("id")
    if decision == "refuse":
        await sessions.DeleteMessage(session_pb2.DeleteMessageRequest(message_id=message_id))
        return
    # The revision that the person saw: what was changed since waits again.
    revision = form.get("revision")
    message = session_pb2.Message(
        message_id=message_id,
        revision=int(revision) if revision.isdecimal() and len(revision) <= _MAX_DIGITS else 0,
        content=form.get("content").replace("\r\n", "\n"),
    )
    mask = FieldMask(paths=["pending_approval", *(["content"] if decision == "edit" else [])])
    await sessions.UpdateMessage(session_pb2.UpdateMessageRequest(message=message, update_mask=mask))


def _approval(form: Parameters, *, is_edited: bool) -> approvals_pb2.ApproveMemoryRequest:
    """Read an approval; `fields` names the fields that the form showed."""
    approval = approvals_pb2.ApproveMemoryRequest(pending_id=form.get("id"))
    if is_edited:
        shown = form.get("fields").split()
        for name in _EDITABLE:
            if name in shown:
                # Browsers send the line ends of Windows.
                setattr(approval.memory, name, form.get(name).replace("\r\n", "\n"))
                approval.update_mask.paths.append(name)
    return approval


async def _list(
    request: Request, context: PageContext, parameters: Parameters, failure: PageError | None = None
) -> Response:
    list_request = approvals_pb2.ListPendingMemoriesRequest(page_size=_PAGE, page_token=parameters.get("page"))
    response = await or_page_error(context.api.curation.ListPendingMemories(list_request))

    of_messages = session_pb2.ListAgentMessagesRequest(
        page_size=_PAGE, pending_approval=True, page_token=parameters.get("messages")
    )
    messages = await or_page_error(context.api.sessions.ListAgentMessages(of_messages))
    pending = [] if isinstance(response, PageError) else list(response.pending_memories)
    stored = await _stored(context, pending)
    return list_page(
        "approvals",
        request,
        context,
        parameters,
        response,
        title="Approvals",
        failure=failure,
        messages=messages,
        show_invisible=show_invisible,
        waiting_count=context.waiting_count
        if parameters.get("page") or parameters.get("messages")
        else context.waiting.keep(context.tenant_id, context.caller.principal, response, messages),
        waiting=[_item(write, stored.get(write.memory.memory_id)) for write in pending],
    )


async def _stored(context: PageContext, pending: Sequence[approvals_pb2.PendingMemory]) -> dict[str, memory_pb2.Memory]:
    """Return the memories that changes apply to, by id; those that the approver cannot read are left out."""
    memory_ids = list(dict.fromkeys(write.memory.memory_id for write in pending if write.update_mask.paths))
    if not memory_ids:
        return {}
    request = memory_pb2.BatchGetMemoriesRequest(memory_ids=memory_ids)
    response = await or_page_error(context.api.memory.BatchGetMemories(request))
    return {} if isinstance(response, PageError) else {memory.memory_id: memory for memory in response.memories}


def _item(write: approvals_pb2.PendingMemory, stored: memory_pb2.Memory | None) -> dict[str, object]:
    """Return a write with the fields that the form shows, and all that it sets, of a change beside what is stored."""
    mask = write.update_mask.paths
    values = []
    for name in _FIELDS:
        text = _text(write.memory, name)
        if name in mask:
            old, new = mark_differences("" if stored is None else _text(stored, name), text)
            values.append({"name": name, "old": old, "new": new})
        elif not mask and text and (name not in _EDITABLE or has_invisible(text)):
            # A form shows the fields that can be edited, but no invisible character in them.
            values.append({"name": name, "old": (), "new": [(text, False)]})
    return {
        "write": write,
        "fields": [name for name in _EDITABLE if not mask or name in mask],
        "values": values,
        "is_change": bool(mask),
        "is_stored_known": stored is not None,
    }


def _text(memory: memory_pb2.Memory, name: str) -> str:
    """Return the value of a field as text; empty for none."""
    value = getattr(memory, name)
    if name in {"data", "metadata"}:
        text = getattr(memory, f"{name}_json") or (json_format.MessageToJson(value) if memory.HasField(name) else "")
    elif name == "tags":
        text = ", ".join(value)
    elif name == "derived_from":
        text = "\n".join(json_format.MessageToJson(source, indent=None) for source in value)
    elif name in {"scope", "level"}:
        enum_name = memory_pb2.Scope.Name(value) if name == "scope" else memory_pb2.Level.Name(value)
        text = enum_name.removeprefix(f"{name}_".upper()).lower() if value else ""
    elif name in {"confidence", "importance"}:
        text = f"{value:g}" if memory.HasField(name) else ""
    elif name.endswith("_time"):
        text = formats.exact(value) if memory.HasField(name) else ""
    else:
        text = str(value)
    return text
