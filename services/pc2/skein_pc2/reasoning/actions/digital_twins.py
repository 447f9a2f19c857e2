"""Digital twins: the profiles of the tenant's subjects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
from google.protobuf.field_mask_pb2 import FieldMask
from grpc import aio

from skein.tenancy.v1 import subjects_pb2 as pb
from skein_pc2.protocol import fields
from skein_pc2.protocol.errors import MEMORY_NOT_FOUND, RATE_LIMIT_EXCEEDED, VALIDATION_ERROR, RequestError
from skein_pc2.reasoning.records import record_values

if TYPE_CHECKING:
    from google.protobuf.struct_pb2 import Struct

    from skein_pc2.gateway_api.client import GatewayApi
    from skein_pc2.protocol.frames import Message
    from skein_pc2.reasoning.records.agent_request import Action
    from skein_pc2.reasoning.records.agent_request import Ask

_TRIES = 10
# Somebody was quicker: look again.
_LOST = frozenset({grpc.StatusCode.ABORTED, grpc.StatusCode.ALREADY_EXISTS, grpc.StatusCode.NOT_FOUND})
# What makes a subject more than a twin.
_OTHERWISE = ("display_name", "timezone", "preferences", "account_id")


class Twins:
    """update_twin, get_twin, delete_twin."""

    def __init__(self, api: GatewayApi) -> None:
        self._api = api
        self.actions: dict[str, Action] = {
            "update_twin": self._update,
            "get_twin": self._get,
            "delete_twin": self._delete,
        }

    async def _update(self, ask: Ask) -> Message:
        """Change the profile where `twin_data` says something; what it does not name stays."""
        if ask.message.get("twin_data") is None:
            raise RequestError(VALIDATION_ERROR, record_values.MISSING)
        profile = record_values.struct(fields.mapping(ask.message["twin_data"], "twin_data"), "twin_data")
        await self.merge(ask, record_values.user_id(ask.message), profile)
        return {"status": "ok"}

    async def merge(self, ask: Ask, name: str, profile: Struct) -> None:
        """Change the fields of a subject's profile that `profile` has; make the subject if there is none."""
        for _ in range(_TRIES):
            subject = await self.find(ask, name)
            try:
                if subject is None:
                    made = pb.Subject(subject_id=name, profile=profile)
                    await self._api.call(self._api.tenancy.CreateSubject, pb.CreateSubjectRequest(subject=made), ask)
                else:
                    for key, value in profile.fields.items():
                        subject.profile.fields[key].CopyFrom(value)
                    await self._write(ask, subject)
            except aio.AioRpcError as error:
                if error.code() not in _LOST:
                    raise
            else:
                return
        text = "The twin is being changed by many others; try again soon"
        raise RequestError(RATE_LIMIT_EXCEEDED, text)

    async def _get(self, ask: Ask) -> Message:
        subject = await self.find(ask, record_values.user_id(ask.message))
        return {"status": "ok", "twin": record_values.plain(subject.profile) if subject is not None else {}}

    async def _delete(self, ask: Ask) -> Message:
        """Empty the profile; a subject that is nothing else goes with it."""
        subject = await self.find(ask, record_values.user_id(ask.message))
        if subject is None or not subject.profile.fields:
            text = "User not found"
            raise RequestError(MEMORY_NOT_FOUND, text)
        if any(subject.HasField(name) if name == "preferences" else getattr(subject, name) for name in _OTHERWISE):
            subject.ClearField("profile")
            await self._write(ask, subject)
        else:
            request = pb.PurgeSubjectRequest(subject_id=subject.subject_id)
            await self._api.call(self._api.tenancy.PurgeSubject, request, ask)
        return {"status": "ok"}

    async def find(self, ask: Ask, name: str) -> pb.Subject | None:
        """Return a subject; None when there is none of that name."""
        try:
            request = pb.GetSubjectRequest(subject_id=name)
            return (await self._api.call(self._api.tenancy.GetSubject, request, ask)).subject
        except aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return None
            raise

    async def _write(self, ask: Ask, subject: pb.Subject) -> None:
        request = pb.UpdateSubjectRequest(subject=subject, update_mask=FieldMask(paths=["profile"]))
        await self._api.call(self._api.tenancy.UpdateSubject, request, ask)
