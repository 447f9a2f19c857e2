"""Digital twins: the profiles of the tenant's subjects."""

from __future__ import annotations

import grpc
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import Struct
from grpc import aio

from skein.tenancy.v1 import subjects_pb2 as pb
from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.protocol import fields
from skein_pc2.protocol.errors import MEMORY_NOT_FOUND, RATE_LIMIT_EXCEEDED, VALIDATION_ERROR, RequestError
from skein_pc2.protocol.frames import Message
from skein_pc2.reasoning.records import record_values
from skein_pc2.reasoning.records.agent_request import Action, AgentRequest

_MAX_ATTEMPTS = 10
# A concurrent change succeeded first, so the subject is read again.
_CONFLICT_CODES = frozenset({grpc.StatusCode.ABORTED, grpc.StatusCode.ALREADY_EXISTS, grpc.StatusCode.NOT_FOUND})
# Fields of a subject that is not only a twin.
_OTHER_SUBJECT_FIELDS = ("display_name", "timezone", "preferences", "account_id")


class DigitalTwins:
    """update_twin, get_twin, delete_twin."""

    def __init__(self, api: GatewayApi) -> None:
        self._api = api
        self.actions: dict[str, Action] = {
            "update_twin": self._update,
            "get_twin": self._get,
            "delete_twin": self._delete,
        }

    async def _update(self, request: AgentRequest) -> Message:
        """Merge `twin_data` into the profile."""
        if request.message.get("twin_data") is None:
            raise RequestError(VALIDATION_ERROR, record_values.MISSING_FIELDS)
        profile = record_values.struct(fields.mapping(request.message["twin_data"], "twin_data"), "twin_data")
        await self.merge(request, record_values.user_id(request.message), profile)
        return {"status": "ok"}

    async def merge(self, request: AgentRequest, name: str, profile: Struct) -> None:
        """Merge `profile` into a subject's profile; create the subject if needed."""
        for _ in range(_MAX_ATTEMPTS):
            subject = await self.find(request, name)
            try:
                if subject is None:
                    new_subject = pb.Subject(subject_id=name, profile=profile)
                    await self._api.call(
                        self._api.tenancy.CreateSubject, pb.CreateSubjectRequest(subject=new_subject), request
                    )
                else:
                    for key, value in profile.fields.items():
                        subject.profile.fields[key].CopyFrom(value)
                    await self._write(request, subject)
            except aio.AioRpcError as error:
                if error.code() not in _CONFLICT_CODES:
                    raise
            else:
                return
        raise RequestError(RATE_LIMIT_EXCEEDED, "The twin is being changed by many others; try again soon")

    async def _get(self, request: AgentRequest) -> Message:
        subject = await self.find(request, record_values.user_id(request.message))
        return {"status": "ok", "twin": record_values.struct_to_json(subject.profile) if subject is not None else {}}

    async def _delete(self, request: AgentRequest) -> Message:
        """Clear the profile; purge a subject without other fields."""
        subject = await self.find(request, record_values.user_id(request.message))
        if subject is None or not subject.profile.fields:
            raise RequestError(MEMORY_NOT_FOUND, "User not found")
        if any(
            subject.HasField(name) if name == "preferences" else getattr(subject, name)
            for name in _OTHER_SUBJECT_FIELDS
        ):
            subject.ClearField("profile")
            await self._write(request, subject)
        else:
            call = pb.PurgeSubjectRequest(subject_id=subject.subject_id)
            await self._api.call(self._api.tenancy.PurgeSubject, call, request)
        return {"status": "ok"}

    async def find(self, request: AgentRequest, name: str) -> pb.Subject | None:
        """Return a subject; None when it does not exist."""
        reply = await self._api.find(self._api.tenancy.GetSubject, pb.GetSubjectRequest(subject_id=name), request)
        return None if reply is None else reply.subject

    async def _write(self, request: AgentRequest, subject: pb.Subject) -> None:
        call = pb.UpdateSubjectRequest(subject=subject, update_mask=FieldMask(paths=["profile"]))
        await self._api.call(self._api.tenancy.UpdateSubject, call, request)
