"""The context of one call, which every servicer method gets, over a socket or in process."""

from __future__ import annotations

import asyncio
import re
import uuid
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from google.rpc.status_pb2 import Status
from grpc import aio

from skein_kit.calls.database_revision import (
    MIN_REVISION_KEY,
    REPLICA_READS,
    REVISION_KEY,
    format_revision,
    min_revision_of,
)
from skein_kit.errors import STATUS_DETAILS_KEY, FieldInvalid
from skein_kit.identity.space_reach import narrowed, walled_reach, whole_reach
from skein_kit.identity.spaces import DEFAULT_SPACE
from skein_kit.ids import now

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from datetime import datetime
    from uuid import UUID

    import grpc

    from skein_kit.identity.identity_token import Caller

    Context = aio.ServicerContext[Any, Any]
else:
    # Not generic at run time.
    Context = aio.ServicerContext

REQUEST_ID_KEY = "skein-request-id"
AUTHORIZATION_KEY = "authorization"
TENANT_KEY = "skein-tenant-id"
# The address and the user agent of the original caller, set by the gateway; a caller's own values end there.
ADDRESS_KEY = "skein-client-address"
# The agent and the session that a caller says it works for: claims for the access log, without effect on permissions.
CLAIMED_AGENT_KEY = "skein-agent-id"
CLAIMED_SESSION_KEY = "skein-session-id"
# The space in which a write acts, and to which a read is limited.
SPACE_KEY = "skein-space-id"
USER_AGENT_KEY = "skein-user-agent"
# The number of services that a call has passed; the gateway drops a caller's own value.
HOPS_KEY = "skein-hops"
# The peer of a call within the process.
IN_PROCESS = "in-process"
# Deadline of a call whose caller set none, in seconds: gRPC itself would let it wait for ever.
DEFAULT_DEADLINE_SECONDS = 30.0
# Longest deadline of a call, in seconds, whatever its caller set: as long as a transaction may keep rows from being
# cleaned up.
MAX_DEADLINE_SECONDS = 300.0
_MAX_USER_AGENT = 255
_MAX_CLAIM = 255
_MAX_REQUEST_ID = 128
_MAX_HOPS_DIGITS = 2
# Characters that gRPC's metadata cannot carry, or that control a terminal.
_UNPRINTABLE = re.compile(r"[^ -~]")


class Call(aio.ServicerContext):  # type: ignore[type-arg]  # Its two message types are any.
    """A call: its metadata (lower-case keys), its deadline and, once verified, its caller."""

    def __init__(self, *, path: str, metadata: Mapping[str, str], deadline: float | None, peer: str) -> None:
        """`deadline` is in seconds of the event loop's clock; None until the deadline interceptor sets one."""
        self.path = path
        self.metadata = metadata
        self.deadline = deadline
        self.peer_address = peer
        # The address of the original caller; empty for the cluster's own work.
        self.client_address = metadata.get(ADDRESS_KEY, "")
        self.user_agent = metadata.get(USER_AGENT_KEY, "")
        # Services that the original call has passed since admission control admitted it.
        self.hops = _hops(metadata.get(HOPS_KEY, ""))
        # Admission control of this service admitted it.
        self.is_admitted = False
        self.request_id = _request_id(metadata.get(REQUEST_ID_KEY, "")[:_MAX_REQUEST_ID])
        self.caller: Caller | None = None
        # The spaces that row-level security shows; None: the default one.
        self.space_ids: tuple[UUID, ...] | None = None
        # The services that the calling process proved to be; empty for any other caller.
        self.peer_services: frozenset[str] = frozenset()
        # The access log of this service has the call.
        self.is_recorded = False
        # Signs the service's page tokens; empty until its database has answered once.
        self.page_token_key = b""
        # The database revision that the answer must show; None: the newest.
        self.min_revision = min_revision_of(path, metadata.get(MIN_REVISION_KEY))
        # The newest revision that the call read or wrote; 0: unknown.
        self.revision = 0
        # Sent with the calls made on behalf of this one.
        self.identity_token = ""
        # The resource for which an access token must have been issued; empty: the API.
        self.audience = ""
        # 32 hexadecimal digits; empty while tracing is off.
        self.trace_id = ""
        # Links a latency to the call's trace; None when the trace is not recorded.
        self.exemplar: dict[str, str] | None = None
        # Turns the response into what the port sends; None: that takes no time, and the port does it itself.
        self.encode: Callable[[Any], Awaitable[Any]] | None = None
        # Sends a message of a stream; None for a unary call.
        self.write_message: Callable[[Any], Awaitable[None]] | None = None
        # The time limit of one operation within a stream; None for a unary call.
        self.operation_seconds: float | None = None
        # When the handler began; None before.
        self.handler_time: datetime | None = None

    def set_origin(self, address: str) -> None:
        """Set the origin of a call that enters the cluster here; its own metadata is not trusted."""
        self.client_address = address
        self.hops = 0
        self.user_agent = _UNPRINTABLE.sub("?", self.metadata.get("user-agent", "")[:_MAX_USER_AGENT])

    def observe_revision(self, revision: int) -> None:
        """Note that the call's answer shows this revision of the database."""
        self.revision = max(self.revision, revision)

    @property
    def write_time(self) -> datetime:
        """The time at which rows that the call writes from now on are recorded.

        It is the start of the handler: no time that the handler takes and stores is before it. Of a stream it is now.
        """
        return now() if self.handler_time is None or self.write_message is not None else self.handler_time

    @property
    def claimed_agent_id(self) -> str:
        """The agent that the caller says it works for; empty without a claim."""
        return _claim(self.metadata.get(CLAIMED_AGENT_KEY, ""))

    @property
    def claimed_session_id(self) -> str:
        """The session that the caller says it works for; empty without a claim."""
        return _claim(self.metadata.get(CLAIMED_SESSION_KEY, ""))

    @property
    def named_space(self) -> str:
        """The space that the caller names; empty for none. It narrows what the caller sees, and never widens it."""
        return _claim(self.metadata.get(SPACE_KEY, ""))

    def narrow_to(self, space_id: UUID) -> None:
        """Reach one of the spaces from now on, also in calls to other services."""
        self.space_ids = (space_id,)
        self.metadata = {**self.metadata, SPACE_KEY: str(space_id)}

    @property
    def reports_revision(self) -> bool:
        """Whether the answer should carry its revision: the call writes, or its caller continues from there."""
        return self.min_revision is not None or self.path not in REPLICA_READS

    def revision_trailers(self) -> tuple[tuple[str, str], ...]:
        """Return the trailing metadata that reports the revision of an answer or an error; empty without one."""
        return ((REVISION_KEY, format_revision(self.revision)),) if self.revision else ()

    def log_fields(self) -> dict[str, str]:
        """Return the ids of this call for a log line that is written after it."""
        tenant_id = self.caller.tenant_id if self.caller is not None else None
        ids = {"request_id": self.request_id, "trace_id": self.trace_id, "tenant_id": str(tenant_id or "")}
        return {name: value for name, value in ids.items() if value}

    def remaining_seconds(self) -> float | None:
        """Return the seconds left for the next operation; None without a limit."""
        if self.deadline is None:
            return self.operation_seconds
        remaining = max(0.0, self.deadline - asyncio.get_running_loop().time())
        return remaining if self.operation_seconds is None else min(remaining, self.operation_seconds)

    # grpc's interface follows; libraries may use it, the servicers of Skein use only `write`.

    async def read(self) -> Any:
        """Raise NotImplementedError: a handler gets its request as an argument."""
        raise NotImplementedError

    async def write(self, message: Any) -> None:
        """Send a message of a stream. Raises NotImplementedError in a unary call."""
        if self.write_message is None:
            raise NotImplementedError
        await self.write_message(message)

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()) -> Any:
        """End the call with a status."""
        raise CallAborted(Status(code=code.value[0], message=details))

    async def send_initial_metadata(self, initial_metadata: Any) -> None:
        """Ignore: Skein sends no initial metadata."""

    def set_trailing_metadata(self, trailing_metadata: Any) -> None:
        """Ignore: only statuses carry trailing metadata."""

    def invocation_metadata(self) -> Any:
        """Return the metadata as grpc does."""
        return tuple(self.metadata.items())

    def set_code(self, code: grpc.StatusCode) -> None:
        """Ignore: errors are raised."""

    def set_details(self, details: str) -> None:
        """Ignore: errors are raised."""

    def set_compression(self, compression: grpc.Compression) -> None:
        """Ignore: answers are small."""

    def disable_next_message_compression(self) -> None:
        """Ignore: answers are small."""

    def peer(self) -> str:
        """Return the address that the call came from."""
        return self.peer_address

    def peer_identities(self) -> None:
        """Return None: `peer_services` and the token have the identities."""
        return

    def peer_identity_key(self) -> None:
        """Return None: the identity is in the token."""
        return

    def auth_context(self) -> Mapping[str, Any]:
        """Return an empty mapping: the identity is in the token."""
        return {}

    def time_remaining(self) -> float:
        """Return the seconds left."""
        remaining = self.remaining_seconds()
        return float("inf") if remaining is None else remaining

    async def abort_with_status(self, status: grpc.Status) -> Any:
        """End the call with a status."""
        raise CallAborted(Status(code=status.code.value[0], message=status.details))


def _request_id(value: str) -> str:
    """Return the caller's request id, or a new one when it is missing or cannot be sent in metadata."""
    return value if value and value.isascii() and value.isprintable() else str(uuid.uuid4())


def _claim(text: str) -> str:
    """Return a caller's claim; empty for one that is too long or cannot be sent in metadata."""
    text = text.strip()
    return text if len(text) <= _MAX_CLAIM and text.isascii() and text.isprintable() else ""


def _hops(value: str) -> int:
    return int(value) if value.isdecimal() and len(value) <= _MAX_HOPS_DIGITS else 0


@lru_cache(maxsize=4096)
def peer_address(peer: str) -> str:
    """Return the address of a grpc peer, "ipv4:192.0.2.1:50" or "ipv6:%5B::1%5D:50"; empty for others."""
    kind, _, host_and_port = peer.partition(":")
    if kind not in {"ipv4", "ipv6"}:
        return ""
    return unquote(host_and_port).rpartition(":")[0].strip("[]")


class CallAborted(Exception):
    """The call ended with a status."""

    def __init__(self, status: Status) -> None:
        """`status` is sent to the caller."""
        super().__init__(status.message)
        self.status = status


_current: ContextVar[Call | None] = ContextVar("skein_call", default=None)


def current_call() -> Call | None:
    """Return the call that this task works for; None for background work."""
    return _current.get()


def bound_agent_id() -> str:
    """Return the agent to which the credential of the current call is bound; empty for none, and in background work."""
    call = current_call()
    return "" if call is None or call.caller is None else call.caller.agent_id


def current_space_ids() -> tuple[UUID, ...] | None:
    """Return the spaces that the current call reaches; None for the default one, and in background work."""
    call = current_call()
    return None if call is None else call.space_ids


def spaces_of_move(caller: Caller, target: str) -> tuple[UUID, UUID]:
    """Return the space in which the current call acts, and the one to which it moves something.

    Raises SpaceNotFound, SpaceReadOnly, and FieldInvalid where both are one.
    """
    (target_id,) = walled_reach(caller, target, is_write=True) or (DEFAULT_SPACE,)
    (source_id,) = current_space_ids() or (DEFAULT_SPACE,)
    if source_id == target_id:
        raise FieldInvalid(violations=[("space_id", "is the space in which the call acts")])
    return source_id, target_id


def named_space() -> str:
    """Return the space that the current call names; empty for none, and in background work."""
    call = current_call()
    return "" if call is None else call.named_space


def reach_all_spaces(context: object) -> None:
    """Have a call go through every space of its tenant from now on: for what shows no content of them.

    Raises the errors of skein_kit.identity.space_reach.whole_reach.
    """
    if isinstance(context, Call) and context.caller is not None:
        context.space_ids = whole_reach(context.caller, context.named_space)


def narrow_spaces(context: object, space_ids: Iterable[UUID]) -> None:
    """Have a call reach no more than some spaces from now on."""
    if isinstance(context, Call):
        context.space_ids = narrowed(context.space_ids, space_ids)


def client_address() -> str:
    """Return the address of the current call's client, as the gateway saw it; empty when unknown."""
    call = current_call()
    return "" if call is None else call.client_address


def user_agent() -> str:
    """Return the user agent of the current call's client; empty when unknown."""
    call = current_call()
    return "" if call is None else call.user_agent


def as_background_call(space_ids: tuple[UUID, ...] | None) -> _CurrentCall:
    """Let background work reach these spaces while a block runs; None: the default one."""
    call = Call(path="background", metadata={}, deadline=None, peer=IN_PROCESS)
    call.space_ids = space_ids
    return as_current_call(call)


def as_current_call(call: Call) -> _CurrentCall:
    """Make `call` the current call while a block runs: outgoing calls carry its identity and deadline."""
    return _CurrentCall(call)


class _CurrentCall:
    __slots__ = ("_call", "_token")

    def __init__(self, call: Call) -> None:
        self._call = call

    def __enter__(self) -> None:
        self._token = _current.set(self._call)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)


def caller(context: object) -> Caller:
    """Return the verified caller of a servicer's context. Raises LookupError when the method is public."""
    if not isinstance(context, Call) or context.caller is None:
        message = "the access rule of this method requires no caller"
        raise LookupError(message)
    return context.caller


def peer_services(context: object) -> frozenset[str]:
    """Return the services that the process calling a method between services proved to be."""
    return context.peer_services if isinstance(context, Call) else frozenset()


def status_metadata(status: Status) -> tuple[tuple[str, bytes], ...]:
    """Return the metadata that carries a rich status."""
    return ((STATUS_DETAILS_KEY, status.SerializeToString()),)
