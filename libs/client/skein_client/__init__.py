"""The typed Python client of a Skein cluster.

    async with Client(endpoint="127.0.0.1:50050", api_key="...") as skein:
        await skein.remember("Anna prefers tea")
        for hit in (await skein.recall("What does Anna drink?")).hits:
            print(hit.score, hit.memory.content)

`skein_client.sync.Client` is the same for code without an event loop.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skein.gateway.v1.gateway_pb2 import BRANCH_BLOCKS, BRANCH_MEMORIES, BRANCH_MESSAGES, BRANCH_PROFILE
    from skein.memory.v1.memory_pb2 import Link, Memory, MemoryFilter
    from skein.recall.v1.recall_pb2 import Hit
    from skein.session.v1.session_pb2 import (
        MESSAGE_ROLE_ASSISTANT,
        MESSAGE_ROLE_SYSTEM,
        MESSAGE_ROLE_TOOL,
        MESSAGE_ROLE_USER,
        Message,
        Session,
    )
    from skein_client.client import Client, ContextLedger
    from skein_client.connection import ClientClosed, NotConfigured
    from skein_client.errors import (
        Aborted,
        AlreadyExists,
        DeadlineExceeded,
        FailedPrecondition,
        Internal,
        InvalidArgument,
        NotFound,
        PermissionDenied,
        ResourceExhausted,
        SkeinError,
        Unauthenticated,
        Unavailable,
        Unimplemented,
        Violation,
    )
    from skein_client.exact_json import get_json, set_json, with_json
    from skein_client.retry import RetryPolicy

__all__ = [
    "BRANCH_BLOCKS",
    "BRANCH_MEMORIES",
    "BRANCH_MESSAGES",
    "BRANCH_PROFILE",
    "MESSAGE_ROLE_ASSISTANT",
    "MESSAGE_ROLE_SYSTEM",
    "MESSAGE_ROLE_TOOL",
    "MESSAGE_ROLE_USER",
    "Aborted",
    "AlreadyExists",
    "Client",
    "ClientClosed",
    "ContextLedger",
    "DeadlineExceeded",
    "FailedPrecondition",
    "Hit",
    "Internal",
    "InvalidArgument",
    "Link",
    "Memory",
    "MemoryFilter",
    "Message",
    "NotConfigured",
    "NotFound",
    "PermissionDenied",
    "ResourceExhausted",
    "RetryPolicy",
    "Session",
    "SkeinError",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "Violation",
    "get_json",
    "set_json",
    "with_json",
]

# Where the names above are, by the module that has them.
_MODULES = (
    "skein.gateway.v1.gateway_pb2",
    "skein.memory.v1.memory_pb2",
    "skein.recall.v1.recall_pb2",
    "skein.session.v1.session_pb2",
    "skein_client.client",
    "skein_client.connection",
    "skein_client.errors",
    "skein_client.exact_json",
    "skein_client.retry",
)


def __getattr__(name: str) -> Any:
    """Import gRPC and the contract when a name is first used: reading the environment needs neither."""
    if name in __all__:
        for module in map(import_module, _MODULES):
            if hasattr(module, name):
                return getattr(module, name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
