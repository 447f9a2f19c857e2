"""What a service answers, as it collects it while it starts. Knows no transport."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from skein_kit.rpc.interceptors import Method
from skein_kit.rpc.streaming import stream_handler

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    import grpc

    from skein_kit.rpc.channel import InProcessHandlers
    from skein_kit.rpc.grpc_handler import OriginResolver
    from skein_kit.rpc.interceptors import Admit, Handler, Identify
    from skein_kit.rpc.streaming import Messages


class ServicerRegistry:
    """What a service answers: its methods, how it learns who calls, and when it is ready."""

    def __init__(
        self,
        *,
        identify: Identify | None = None,
        admit: Admit | None = None,
        continues_trace: bool = True,
        is_edge: bool = False,
        origin: OriginResolver = lambda address, _forwarded, _has_forwarded: address,
        credentials: grpc.ServerCredentials | None = None,
    ) -> None:
        """Verify signed identities and continue callers' traces, unless told otherwise (the gateway is)."""
        self.identify = identify
        # What refuses calls that are too many; None: nothing does.
        self.admit = admit
        # Calls enter the cluster here: where from is what the socket says, not the metadata.
        self.is_edge = is_edge
        # Where a call comes from, given the socket's address and what X-Forwarded-For says.
        self.origin = origin
        # What the gRPC port speaks TLS with; None: plain text.
        self.credentials = credentials
        self.continues_trace = continues_trace
        self.methods: list[Method] = []
        self.names: set[str] = set()
        self.ready_checks: list[Callable[[], Awaitable[bool]]] = []
        # The methods behind the interceptors, by path, while the service runs: for doors other than gRPC's.
        self.answers: InProcessHandlers = {}

    def add(self, register: Callable[[Any, Any], None], servicer: object) -> None:
        """Add a servicer with the generated `add_...Servicer_to_server`."""
        register(servicer, self)

    def forward(self, path: str, handler: Handler) -> None:
        """Answer a method with raw bytes."""
        self.methods.append(Method(path=path, handler=handler, deserializer=None, serializer=None))
        self.names.add(path.split("/")[1])

    def forward_stream(self, path: str, messages: Messages) -> None:
        """Answer a method with a stream of raw bytes."""
        handler = stream_handler(path, messages)
        self.methods.append(Method(path=path, handler=handler, deserializer=None, serializer=None, streams=True))
        self.names.add(path.split("/")[1])

    def add_generic_rpc_handlers(self, _handlers: object) -> None:
        """Pass over grpc's older form of the same registration."""

    def add_registered_method_handlers(
        self, service: str, handlers: Mapping[str, grpc.RpcMethodHandler[Any, Any]]
    ) -> None:
        """Take the handlers that generated code registers."""
        self.names.add(service)
        for name, handler in handlers.items():
            if handler.request_streaming:
                message = f"{service}/{name} takes a stream, which the interceptors do not know"
                raise TypeError(message)
            path = f"/{service}/{name}"
            if handler.response_streaming:
                answer = stream_handler(path, cast("Messages", handler.unary_stream))
            else:
                answer = cast("Handler", handler.unary_unary)
            self.methods.append(
                Method(
                    path=path,
                    handler=answer,
                    deserializer=handler.request_deserializer,
                    serializer=handler.response_serializer,
                    streams=handler.response_streaming,
                )
            )
