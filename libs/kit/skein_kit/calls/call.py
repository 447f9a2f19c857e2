"""One call being answered: what every servicer method gets as its context, over a socket or in process."""

from __future__ import annotations

import asyncio
import re
import uuid
from contextlib import ExitStack
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from google.rpc.status_pb2 import Status
from grpc import aio

from skein_kit.calls.database_revision import MIN_REVISION_KEY, min_revision_of
from skein_kit.errors import STATUS_DETAILS_KEY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    import grpc

    from skein_kit.identity.identity_token import Caller

    Context = aio.ServicerContext[Any, Any]
else:
    # Not generic at run time.
    Context = aio.ServicerContext

REQUEST_ID_KEY = "skein-request-id"
AUTHORIZATION_KEY = "authorization"
TENANT_KEY = "skein-tenant-id"
# Where a call entered the cluster and what made it, as the gateway saw it; a caller's own claims end at the gateway.
ADDRESS_KEY = "skein-client-address"
# The agent and the session that a caller says it works for. Nothing follows from them but a line in the access log.
CLAIMED_AGENT_KEY = "skein-agent-id"
CLAIMED_SESSION_KEY = "skein-session-id"
AGENT_KEY = "skein-user-agent"
# How many services a call has passed; a caller's own claims end at the gateway.
HOPS_KEY = "skein-hops"
# The peer of a call that came over no socket.
IN_PROCESS = "in-process"
_MAX_USER_AGENT = 255
_MAX_CLAIM = 255
_MAX_REQUEST_ID = 128
_MAX_HOPS_DIGITS = 2
# What gRPC's metadata cannot carry on, and a terminal would act on.
_UNPRINTABLE = re.compile(r"[^ -~]")


class Call(aio.ServicerContext):  # type: ignore[type-arg]  # Its two message types are any.
    """A call: its metadata (lower-case keys), when it must be over, and, once verified, who makes it."""

    def __init__(self, *, path: str, metadata: Mapping[str, str], deadline: float | None, peer: str) -> None:
        """`deadline` is a time of the event loop's clock; None until the deadline interceptor sets one."""
        self.path = path
        self.metadata = metadata
        self.deadline = deadline
        self.peer_address = peer
        # Where the call entered the cluster; empty for what the cluster does by itself.
        self.client_address = metadata.get(ADDRESS_KEY, "")
        self.user_agent = metadata.get(AGENT_KEY, "")
        # Empty for a caller that claims none.
        self.claimed_agent_id = _claim(metadata.get(CLAIMED_AGENT_KEY, ""))
        self.claimed_session_id = _claim(metadata.get(CLAIMED_SESSION_KEY, ""))
        # Services that work on what this call is a part of, since the first of them gave it a turn.
        self.hops = _hops(metadata.get(HOPS_KEY, ""))
        # It had its turn here.
        self.has_turn = False
        self.request_id = _request_id(metadata.get(REQUEST_ID_KEY, "")[:_MAX_REQUEST_ID])
        self.caller: Caller | None = None
        # What the service that answers signs page tokens with; empty before its database answered.
        self.handle_key = b""
        # What the answer must show at least, as a revision of the database; None: all there is.
        self.min_revision = min_revision_of(path, metadata.get(MIN_REVISION_KEY))
        # The newest that it showed or wrote, as far as that is known; 0: not.
        self.revision = 0
        # The signed identity that goes along with calls made on behalf of this one.
        self.token = ""
        # Bytes of memory budgets that are released when the call ends.
        self.reservations = ExitStack()
        # The resource that an access token must have been made for; empty: the API.
        self.audience = ""
        # 32 hexadecimal digits; empty while tracing is off.
        self.trace_id = ""
        # What leads from the call's time to its trace, if somebody keeps it.
        self.exemplar: dict[str, str] | None = None
        # Where the messages of a stream go; None for every other call.
        self.writer: Callable[[Any], Awaitable[None]] | None = None
        # The most that one thing done within a stream may take, which itself may last much longer; None: all the time.
        self.step_seconds: float | None = None

    def entered(self, address: str) -> None:
        """Say that the call enters the cluster here, from this address, whatever its metadata claims."""
        self.client_address = address
        self.hops = 0
        self.user_agent = _UNPRINTABLE.sub("?", self.metadata.get("user-agent", "")[:_MAX_USER_AGENT])

    def saw(self, revision: int) -> None:
        """Say that what the call comes to shows, or is, what was written up to here."""
        self.revision = max(self.revision, revision)

    def facts(self) -> dict[str, str]:
        """Return what finds this call again, for a log line that is written when the call is over."""
        tenant_id = self.caller.tenant_id if self.caller is not None else None
        known = {"request_id": self.request_id, "trace_id": self.trace_id, "tenant_id": str(tenant_id or "")}
        return {name: value for name, value in known.items() if value}

    def remaining(self) -> float | None:
        """Return the seconds left for what is done next; None without a deadline."""
        if self.deadline is None:
            return self.step_seconds
        left = max(0.0, self.deadline - asyncio.get_running_loop().time())
        return left if self.step_seconds is None else min(left, self.step_seconds)

    # What follows is grpc's interface; our servicers need none of it, libraries may.

    async def read(self) -> Any:
        """Refuse: unary calls have nothing to read."""
        raise NotImplementedError

    async def write(self, message: Any) -> None:
        """Send a message of a stream; every other call answers by returning."""
        if self.writer is None:
            raise NotImplementedError
        await self.writer(message)

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()) -> Any:
        """End the call with a status."""
        raise CallAborted(Status(code=code.value[0], message=details))

    async def send_initial_metadata(self, initial_metadata: Any) -> None:
        """Ignore: nothing of ours sends initial metadata."""

    def set_trailing_metadata(self, trailing_metadata: Any) -> None:
        """Ignore: only statuses carry trailing metadata."""

    def invocation_metadata(self) -> Any:
        """Return the metadata as grpc does."""
        return tuple(self.metadata.items())

    def set_code(self, code: grpc.StatusCode) -> None:
        """Ignore: a refusal is raised."""

    def set_details(self, details: str) -> None:
        """Ignore: a refusal is raised."""

    def set_compression(self, compression: grpc.Compression) -> None:
        """Ignore: answers are small."""

    def disable_next_message_compression(self) -> None:
        """Ignore: answers are small."""

    def peer(self) -> str:
        """Return the address that the call came from."""
        return self.peer_address

    def peer_identities(self) -> None:
        """Return None: identity is in the token."""
        return

    def peer_identity_key(self) -> None:
        """Return None: identity is in the token."""
        return

    def auth_context(self) -> Mapping[str, Any]:
        """Return nothing: identity is in the token."""
        return {}

    def time_remaining(self) -> float:
        """Return the seconds left."""
        left = self.remaining()
        return float("inf") if left is None else left

    async def abort_with_status(self, status: grpc.Status) -> Any:
        """End the call with a status."""
        raise CallAborted(Status(code=status.code.value[0], message=status.details))


def _request_id(given: str) -> str:
    """Return the caller's own id, or a new one for none and for one that gRPC's metadata could not carry on."""
    return given if given and given.isascii() and given.isprintable() else str(uuid.uuid4())


def _claim(text: str) -> str:
    """Return a caller's claim, or nothing for one that is too long or that gRPC's metadata could not carry on."""
    text = text.strip()
    return text if len(text) <= _MAX_CLAIM and text.isascii() and text.isprintable() else ""


def _hops(given: str) -> int:
    return int(given) if given.isdecimal() and len(given) <= _MAX_HOPS_DIGITS else 0


@lru_cache(maxsize=4096)
def peer_address(peer: str) -> str:
    """Return the address in what grpc calls a peer: "ipv4:192.0.2.1:50", "ipv6:%5B::1%5D:50"; else empty."""
    kind, _, rest = peer.partition(":")
    if kind not in {"ipv4", "ipv6"}:
        return ""
    return unquote(rest).rpartition(":")[0].strip("[]")


class CallAborted(Exception):
    """The call ended with a status."""

    def __init__(self, status: Status) -> None:
        """Carry the status to the transport."""
        super().__init__(status.message)
        self.status = status


_current: ContextVar[Call | None] = ContextVar("skein_call", default=None)


def current_call() -> Call | None:
    """Return the call that this task works for; None in the background."""
    return _current.get()


def client_address() -> str:
    """Return the address of the current call's client, as the gateway saw it; empty when unknown."""
    call = current_call()
    return "" if call is None else call.client_address


def user_agent() -> str:
    """Return the user agent of the current call's client; empty when unknown."""
    call = current_call()
    return "" if call is None else call.user_agent


def as_current_call(call: Call) -> _CurrentCall:
    """Make `call` the one on whose behalf outgoing calls are made, while a block runs."""
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
    """Return the verified caller of a servicer's context."""
    if not isinstance(context, Call) or context.caller is None:
        message = "the method's access rule must want a caller"
        raise LookupError(message)
    return context.caller


def status_metadata(status: Status) -> tuple[tuple[str, bytes], ...]:
    """Return the metadata that carries a rich status."""
    return ((STATUS_DETAILS_KEY, status.SerializeToString()),)
