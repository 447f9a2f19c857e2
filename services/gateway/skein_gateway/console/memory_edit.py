"""The page that edits one memory. A form that is older than the last change shows both texts and saves nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from skein.memory.v1 import memory_pb2
from skein_gateway.console import field_merge
from skein_gateway.console.browser_sessions import PageContext
from skein_gateway.console.pages import form_page, revision_of
from skein_gateway.console.problems import PageError, or_page_error, page_error_of
from skein_gateway.oauth.forms import FormInvalid, Parameters
from skein_gateway.oauth.pages import see_other
from skein_kit.json_values import exact, fields

# Versions that are searched for the one that a form was opened with.
_VERSIONS = 100
_SCOPE, _LEVEL = "SCOPE_", "LEVEL_"


@dataclass(frozen=True, kw_only=True, slots=True)
class Input:
    """One input of the form; its name is that of a field of the memory."""

    name: str
    label: str
    # "text", "area", "lines", "choice", "number", "time" or "json".
    kind: str = "text"
    help: str = ""
    length: int = 255
    choices: Sequence[str] = ()


GROUPS: Sequence[tuple[str, Sequence[Input]]] = (
    (
        "Content",
        (
            Input(name="title", label="Title", length=1000),
            Input(name="content", label="Text", kind="area"),
            Input(name="type", label="Type", length=64, help="Such as note, fact or preference."),
            Input(name="key", label="Fact key", help="Unique among the facts about one subject."),
            Input(name="tags", label="Tags", kind="lines", help="One per line."),
        ),
    ),
    (
        "Who and where",
        (
            Input(name="subject_id", label="Subject", help="The person whom the memory is about."),
            Input(name="agent_id", label="Agent"),
            Input(name="session_id", label="Session"),
            Input(name="source", label="Source", length=1000),
            Input(name="source_agent", label="Observed by agent"),
            Input(
                name="scope",
                label="Scope",
                kind="choice",
                choices=[name.removeprefix(_SCOPE).lower() for name in memory_pb2.Scope.keys()[1:]],
            ),
            Input(
                name="level",
                label="Level",
                kind="choice",
                choices=[name.removeprefix(_LEVEL).lower() for name in memory_pb2.Level.keys()[1:]],
            ),
        ),
    ),
    (
        "Weight and time",
        (
            Input(name="confidence", label="Confidence", kind="number", help="From 0 to 1."),
            Input(name="importance", label="Importance", kind="number", help="From 0 to 1."),
            Input(name="valid_from_time", label="Valid from (UTC)", kind="time"),
            Input(name="valid_to_time", label="Valid to (UTC)", kind="time"),
            Input(name="expire_time", label="Expires (UTC)", kind="time", help="Empty: never."),
        ),
    ),
    (
        "Structured content",
        (
            Input(name="data", label="Data", kind="json", help="A JSON object, or empty."),
            Input(name="metadata", label="Metadata", kind="json", help="A JSON object, or empty."),
        ),
    ),
)
_INPUTS: Mapping[str, Input] = {one.name: one for _, inputs in GROUPS for one in inputs}
_LABELS = {name: one.label for name, one in _INPUTS.items()}


async def show(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """Show the form with what is stored."""
    memory = await _stored(context, parameters.get("id"))
    return _edit_page(request, context, memory, values_of(memory))


async def submit(request: Request, context: PageContext, parameters: Parameters, form: Parameters) -> Response:
    """Save the changed fields, delete the memory, or bring it back."""
    memory_id, revision = parameters.get("id"), revision_of(form)
    if form.get("step") == "undelete":
        await context.api.memory.UndeleteMemory(memory_pb2.UndeleteMemoryRequest(memory_id=memory_id))
        return see_other(context.url("memory", id=memory_id, done="undeleted"))
    if not revision:
        raise FormInvalid("The form names no revision. Open the memory again.")
    if form.get("step") == "delete":
        delete_request = memory_pb2.DeleteMemoryRequest(memory_id=memory_id, revision=revision)
        await context.api.memory.DeleteMemory(delete_request)
        return see_other(context.url("memory", id=memory_id, done="deleted"))
    return await _save(request, context, memory_id, revision, form)


async def _save(request: Request, context: PageContext, memory_id: str, revision: int, form: Parameters) -> Response:
    typed = {name: form.get(name) for name in _INPUTS}
    stored = await _stored(context, memory_id)
    if stored.revision != revision:
        return await _conflict_page(request, context, stored, revision, typed)
    changed = field_merge.changed_fields(values_of(stored), typed)
    if not changed:
        return see_other(context.url("memory", id=memory_id, done="unchanged"))
    memory, problems = memory_of(typed, changed)
    if problems:
        return _edit_page(request, context, stored, typed, PageError(title="", text=" ".join(problems), status=400))
    memory.memory_id, memory.revision = memory_id, revision
    update_request = memory_pb2.UpdateMemoryRequest(memory=memory)
    update_request.update_mask.paths.extend(changed)
    try:
        response = await context.api.memory.UpdateMemory(update_request)
    except Exception as error:  # noqa: BLE001 - page_error_of raises unexpected errors again.
        failure = page_error_of(error)
        if failure.reason == "REVISION_STALE":
            return await _conflict_page(request, context, await _stored(context, memory_id), revision, typed)
        return _edit_page(request, context, stored, typed, failure)
    return see_other(context.url("memory", id=memory_id, done="edit-waits" if response.pending_id else "edited"))


async def _conflict_page(
    request: Request, context: PageContext, stored: memory_pb2.Memory, revision: int, typed: Mapping[str, str]
) -> Response:
    """Show both states, and a form with the person's changes at the current revision."""
    versions = await or_page_error(
        context.api.memory.ListMemoryVersions(
            memory_pb2.ListMemoryVersionsRequest(memory_id=stored.memory_id, page_size=_VERSIONS)
        )
    )
    listed = [] if isinstance(versions, PageError) else versions.versions
    base = next((one.memory for one in listed if one.memory.revision == revision), None)
    now = values_of(stored)
    # Without the version that the form was opened with, every difference counts as the person's.
    merged = field_merge.merge(values_of(base), now, typed) if base is not None else dict(typed)
    failure = PageError(
        title="",
        text="This memory changed after you opened it. Compare both, then save yours, or keep what is stored.",
        status=409,
    )
    return _edit_page(
        request, context, stored, merged, failure, differences=field_merge.differences(now, merged, _LABELS)
    )


async def _stored(context: PageContext, memory_id: str) -> memory_pb2.Memory:
    return (await context.api.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id=memory_id))).memory


def _edit_page(
    request: Request,
    context: PageContext,
    memory: memory_pb2.Memory,
    values: Mapping[str, str],
    failure: PageError | None = None,
    differences: Sequence[field_merge.FieldDifference] = (),
) -> Response:
    return form_page(
        "edit",
        request,
        context,
        at="memories",
        title="Edit a memory",
        failure=failure,
        memory=memory,
        groups=GROUPS,
        values=values,
        differences=differences,
        may_write=context.may("memory.write"),
    )


def values_of(memory: memory_pb2.Memory) -> dict[str, str]:
    """Return the texts of the form's inputs for a memory."""
    return {name: _text_of(memory, one) for name, one in _INPUTS.items()}


def memory_of(values: Mapping[str, str], names: Sequence[str]) -> tuple[memory_pb2.Memory, list[str]]:
    """Return a memory with the named fields of the form, and a sentence for each text that cannot be read."""
    memory, problems = memory_pb2.Memory(), []
    for name in names:
        one, text = _INPUTS[name], field_merge.line_breaks(values[name])
        try:
            _PARSERS[one.kind](memory, name, text)
        except (ValueError, OverflowError):
            problems.append(f"“{one.label}” {_NEEDS[one.kind]}.")
    return memory, problems


def _text_of(memory: memory_pb2.Memory, one: Input) -> str:
    value: Any = getattr(memory, one.name)
    if one.kind == "lines":
        return "\n".join(value)
    if one.kind == "choice":
        return (memory_pb2.Scope if one.name == "scope" else memory_pb2.Level).Name(value).partition("_")[2].lower()
    if one.kind == "number":
        return f"{value:g}" if memory.HasField(one.name) else ""
    if one.kind == "time":
        # Browsers send the shortest form, which has no seconds that are zero.
        moment = datetime.fromtimestamp(value.seconds, UTC)
        return f"{moment:%Y-%m-%dT%H:%M:%S}".removesuffix(":00") if value.seconds else ""
    if one.kind == "json":
        content = fields.value_of(memory, one.name)
        return "" if content is None else exact.dumps(content, indent=2)
    return str(value)


def _set_text(memory: memory_pb2.Memory, name: str, text: str) -> None:
    setattr(memory, name, text if name == "content" else text.strip())


def _set_lines(memory: memory_pb2.Memory, name: str, text: str) -> None:
    getattr(memory, name).extend(dict.fromkeys(line.strip() for line in text.split("\n") if line.strip()))


def _set_choice(memory: memory_pb2.Memory, name: str, text: str) -> None:
    numbers: Any = memory_pb2.Scope if name == "scope" else memory_pb2.Level
    setattr(memory, name, numbers.Value(f"{name.upper()}_{text.upper()}"))


def _set_number(memory: memory_pb2.Memory, name: str, text: str) -> None:
    if not text.strip():
        return
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    setattr(memory, name, value)


def _set_time(memory: memory_pb2.Memory, name: str, text: str) -> None:
    if text.strip():
        getattr(memory, name).FromDatetime(datetime.fromisoformat(text.strip()).replace(tzinfo=UTC))


def _set_json(memory: memory_pb2.Memory, name: str, text: str) -> None:
    if not text.strip():
        return
    value = exact.loads(text)
    if not isinstance(value, dict):
        raise ValueError(name)  # noqa: TRY004 - a caller's text, reported as every other one.
    fields.set_value(memory, name, value)


_PARSERS: Mapping[str, Callable[[memory_pb2.Memory, str, str], None]] = {
    "text": _set_text,
    "area": _set_text,
    "lines": _set_lines,
    "choice": _set_choice,
    "number": _set_number,
    "time": _set_time,
    "json": _set_json,
}
_NEEDS = {
    "text": "needs a text",
    "area": "needs a text",
    "lines": "needs one entry per line",
    "choice": "needs one of its choices",
    "number": "needs a number from 0 to 1",
    "time": "needs a date and a time",
    "json": "needs a JSON object",
}
