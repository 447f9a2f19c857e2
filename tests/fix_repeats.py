"""What the answer to a request that is repeated under its request_id has to be."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import grpc
from fix_matrix import GUARDED, METHODS, call, outcome
from google.protobuf.message import Message

# RPCs that may be repeated under a request_id; the request of each is that of the matrix.
REPEATABLE = [path for path in GUARDED if "request_id" in METHODS[path].input_type.fields_by_name]
SHOWN_ONCE = {"secret", "token", "link"}
# Another request under their id is refused for what it names, before the id is looked up.
LOOKED_UP_LATE = {
    "ArchiveMemories": "INVALID_FIELD",
    "CreateAccount": "INVALID_FIELD",
    "CreateInvitation": "INVALID_FIELD",
    "RestoreSnapshot": "SNAPSHOT_NOT_FOUND",
    "OfferEmbeddingModel": "MODEL_NOT_FOUND",
    "StartReindex": "MODEL_NOT_FOUND",
    "SummarizeSession": "SESSION_NOT_FOUND",
    "AddMember": "ACCOUNT_NOT_FOUND",
    "DeleteTenant": "TENANT_NOT_FOUND",
    "UpdateTenant": "TENANT_NOT_FOUND",
    # Each reading is an event of its own.
    "RevealSecret": "MEMORY_NOT_FOUND",
}
# Their answers tell how long a call took, or what is left of its person too; this field of them is the same.
RETOLD = {
    "GatewayService/BuildContext": "text",
    "GatewayService/Forget": "certificate_id",
    "SessionService/PurgeSubject": "certificate_id",
}
# What differs is a secret, of which nothing is kept, or another tenant, which has request ids of its own. And without
# a ledger a context is built for each request.
NOT_COMPARED = {"BuildContext", "RevokeCredentials", "SetLegacyToken"}


async def assert_repeatable(
    channel: Any, path: str, request: Any, first: Message, credential: str, metadata: Mapping[str, str]
) -> None:
    """Repeat a request that had an answer, and then send another one under its request_id."""
    method, kept = path.rpartition("/")[2], RETOLD.get(path.rpartition(".")[2])
    code, reason, again = await outcome(call(channel, path, request, credential, **metadata))
    assert code is grpc.StatusCode.OK, f"repeated: {code} {reason}"
    if kept is None:
        assert _without_secrets(again) == _without_secrets(first), "repeated"
    else:
        assert getattr(again, kept) == getattr(first, kept), "repeated"
    if method not in NOT_COMPARED and _differing(request):
        code, reason, _ = await outcome(call(channel, path, request, credential, **metadata))
        assert reason == LOOKED_UP_LATE.get(method, "REQUEST_ID_REUSED"), f"another request: {code} {reason}"


def _differing(message: Any) -> bool:
    """Change one text, id or number of a request; False where it has none but its request_id."""
    for field, value in message.ListFields():
        if field.name in {"request_id", "update_mask"}:
            continue
        if field.message_type is not None:
            inner = value if not isinstance(value, Sequence) else value[0]
            if not isinstance(inner, Mapping) and _differing(inner):
                return True
        elif isinstance(value, str):
            setattr(message, field.name, str(uuid.uuid4()))
            return True
        elif isinstance(value, int | float) and not isinstance(value, bool) and field.enum_type is None:
            setattr(message, field.name, value + 1)
            return True
    return False


def _without_secrets(message: Any) -> Message:
    """Return an answer without what is shown to the first request alone."""
    result: Message = type(message)()
    result.CopyFrom(message)
    for name in SHOWN_ONCE & set(result.DESCRIPTOR.fields_by_name):
        result.ClearField(name)
    return result
