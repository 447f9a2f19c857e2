"""Batches of port 7140: failed items are reported one by one, and the others succeed."""

from __future__ import annotations

import uuid
from typing import Any

import grpc
from google.rpc import error_details_pb2
from grpc import aio

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.errors import status_of_call
from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.memory_service import convert as records
from skein_pc2.memory_service import links
from skein_pc2.memory_service.parents import Parent, parent_of
from skein_pc2.protocol import fields
from skein_pc2.protocol.actions import ActionRequest
from skein_pc2.protocol.errors import RequestError, error_text, to_request_error, waits_for_approval
from skein_pc2.protocol.frames import Message

_MAX_ADDED_MEMORIES, _MAX_READ_MEMORIES = 500, 200
_MAX_ID_CHARACTERS = 255
_MISSING = "There is no memory of this id"
_REPLY_FULL = "The answer has no room for this one; ask for it again"
# Errors of one item, whose index the service names.
_ITEM_ERROR_CODES = frozenset({grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.ALREADY_EXISTS})


class Batches:
    """batch_add_memories, batch_get_memories."""

    def __init__(self, api: GatewayApi) -> None:
        self._api = api

    async def add(self, request: ActionRequest) -> Message:
        """Create memories; `memory_ids` has an id or null for each."""
        items = _parse_items(request, "memories", _MAX_ADDED_MEMORIES)
        failures: dict[int, str] = {}
        drafts: dict[int, pb.Memory] = {}
        parents: dict[int, str] = {}
        for index, item in enumerate(items):
            try:
                values = fields.mapping(item, "memory")
                draft = records.parse_draft(values, f"mem-{uuid.uuid5(request.new_id(), str(index))}")
                parents[index] = fields.text(values, "parent_id")
                drafts[index] = draft
            except RequestError as error:
                failures[index] = error_text(error)
        for parent_id in {parents[index] for index in drafts if parents[index]}:
            parent = await self._find_parent(parent_id, request)
            for index in [index for index in drafts if parents[index] == parent_id]:
                if parent is None:
                    del drafts[index]
                    failures[index] = "The parent memory was not found, nor a session of this id"
                elif parent.session is not None:
                    drafts[index].session_id, parents[index] = parent_id, ""
        stored = await self._create_all(drafts, failures, request)
        for index, memory in stored.items():
            if parents[index]:
                await links.set_parent(self._api, request, memory.memory_id, parents[index])
        reply: Message = {
            "memory_ids": [records.name(stored[index]) if index in stored else None for index in range(len(items))],
            "count": len(stored),
            "failures": [{"index": index, "message": failures[index]} for index in sorted(failures)],
        }
        if items and not stored:
            return {**reply, "status": "error", "message": "None of the memories was added; failures say why"}
        return reply

    async def get(self, request: ActionRequest) -> Message:
        """Read memories, in the order of the request."""
        sent_ids = _parse_items(request, "memory_ids", _MAX_READ_MEMORIES)
        memory_ids = list(dict.fromkeys(item for item in sent_ids if isinstance(item, str)))
        failures: list[dict[str, Any]] = [
            {"memory_id": None, "message": "A memory_id is a text"} for item in sent_ids if not isinstance(item, str)
        ]
        valid_ids = [name for name in memory_ids if _is_id(name)]
        failures += [
            {"memory_id": name[:_MAX_ID_CHARACTERS], "message": _MISSING} for name in memory_ids if not _is_id(name)
        ]
        memories: list[pb.Memory] = []
        if valid_ids:
            call = pb.BatchGetMemoriesRequest(memory_ids=valid_ids)
            result = await self._api.call(self._api.memories.BatchGetMemories, call, request)
            memories += result.memories
            failures += [{"memory_id": name, "message": _MISSING} for name in result.not_found_ids]
            failures += [{"memory_id": name, "message": _REPLY_FULL} for name in result.unread_ids]
        return {**links.list_reply(await links.to_records(self._api, request, memories)), "failures": failures}

    async def _create_all(
        self, drafts: dict[int, pb.Memory], failures: dict[int, str], request: ActionRequest
    ) -> dict[int, pb.Memory]:
        """Create all drafts except faulty ones, which are removed as the service names them.

        Those that wait for approval are failures too: they are not stored yet.
        """
        remaining = dict(drafts)
        while remaining:
            indexes = list(remaining)
            # Another set of items needs another request_id.
            request_id = f"{request.repeat_id}-{len(failures)}" if request.repeat_id else ""
            call = pb.BatchCreateMemoriesRequest(
                defer_embedding=True, memories=remaining.values(), request_id=request_id
            )
            try:
                response = await self._api.call(self._api.memories.BatchCreateMemories, call, request)
            except aio.AioRpcError as error:
                index = _error_index(error)
                if error.code() not in _ITEM_ERROR_CODES or index is None or not 0 <= index < len(indexes):
                    raise
                failures[indexes[index]] = error_text(to_request_error(error, transient_code=""))
                del remaining[indexes[index]]
                continue
            created = dict(zip(indexes, response.memories, strict=True))
            for index, memory in created.items():
                if memory.pending_approval:
                    failures[index] = error_text(waits_for_approval(memory.memory_id))
            return {index: memory for index, memory in created.items() if index not in failures}
        return {}

    async def _find_parent(self, parent_id: str, request: ActionRequest) -> Parent | None:
        try:
            return await parent_of(self._api, request, parent_id)
        except RequestError:
            return None
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.INVALID_ARGUMENT:
                raise
            return None


def _parse_items(request: ActionRequest, name: str, max_items: int) -> list[Any]:
    items = request.fields.get(name)
    if not isinstance(items, list):
        raise fields.invalid(name, "is a list")
    if len(items) > max_items:
        raise fields.invalid(name, f"holds at most {max_items} items")
    return items


def _is_id(name: str) -> bool:
    """Say whether a text can be an id."""
    try:
        fields.require_text(name, "memory_id")
    except RequestError:
        return False
    return 0 < len(name) <= _MAX_ID_CHARACTERS and "\0" not in name


def _error_index(error: aio.AioRpcError) -> int | None:
    """Return the index of the item that an error is about."""
    status = status_of_call(error)
    for detail in status.details if status is not None else ():
        if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            info = error_details_pb2.ErrorInfo()
            detail.Unpack(info)
            text = info.metadata.get("index", "")
            return int(text) if text.isdecimal() else None
    return None
