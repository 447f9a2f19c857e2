"""The methods of a service, collected while it starts. Knows no transport."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import grpc

from skein_kit.rpc.channel import InProcessHandlers
from skein_kit.rpc.declared_steps import DeclaredSteps
from skein_kit.rpc.grpc_handler import OriginResolver
from skein_kit.rpc.interceptors import Admit, Handler, Identify, Method

if TYPE_CHECKING:
    from skein_kit.rpc.streaming import Messages


class ServicerRegistry:
    """The methods of a service, the way it identifies callers, and its readiness checks."""

    def __init__(
        self,
        *,
        identify: Identify | None = None,
        admit: Admit | None = None,
        continues_trace: bool = True,
        is_edge: bool = False,
        resolve_origin: OriginResolver = lambda address, _forwarded, _has_forwarded: address,
        credentials: grpc.ServerCredentials | None = None,
    ) -> None:
        """By default verify identity tokens and continue callers' traces; the gateway does neither."""
        self.identify = identify
        # Applies the rate limit; None: there is none.
        self.admit = admit
        # Calls enter the cluster here: their origin comes from the socket, not from their metadata.
        self.is_edge = is_edge
        # Returns the address of a caller from the socket's address and the X-Forwarded-For headers.
        self.resolve_origin = resolve_origin
        # TLS of the gRPC port; None: plain text.
        self.credentials = credentials
        self.continues_trace = continues_trace
        # What methods declare: access log, approval, content guard.
        self.steps = DeclaredSteps()
        self.methods: list[Method] = []
        self.service_names: set[str] = set()
        self.ready_checks: list[Callable[[], Awaitable[bool]]] = []
        # The methods behind the interceptors, by path, while the service runs: for ports other than gRPC's.
        self.handlers: InProcessHandlers = {}

    def add(self, register: Callable[[Any, Any], None], *features: object) -> None:
        """Add a gRPC service by the generated `add_...Servicer_to_server`; each of its RPCs is a method of one feature.

        Raises TypeError for an RPC that no feature has, or several have.
        """
        register(_ByName(features), self)

    def add_raw(self, path: str, handler: Handler) -> None:
        """Add a method whose request and response are bytes."""
        self.methods.append(
            Method(path=path, handler=handler, deserializer=None, serializer=None, is_served_here=False)
        )
        self.service_names.add(path.split("/")[1])

    def add_raw_stream(self, path: str, messages: Messages) -> None:
        """Add a streaming method whose request and messages are bytes."""
        self.methods.append(
            Method(
                path=path,
                handler=messages,
                deserializer=None,
                serializer=None,
                is_streaming=True,
                is_served_here=False,
            )
        )
        self.service_names.add(path.split("/")[1])

    def add_generic_rpc_handlers(self, _handlers: object) -> None:
        """Ignore grpc's older form of the same registration."""

    def add_registered_method_handlers(
        self, service: str, handlers: Mapping[str, grpc.RpcMethodHandler[Any, Any]]
    ) -> None:
        """Add the handlers that generated code registers. Raises TypeError for a method with a stream of requests."""
        self.service_names.add(service)
        for name, handler in handlers.items():
            if handler.request_streaming:
                message = f"{service}/{name} takes a stream of requests, which the interceptors do not support"
                raise TypeError(message)
            self.methods.append(
                Method(
                    path=f"/{service}/{name}",
                    handler=cast("Any", handler.unary_stream if handler.response_streaming else handler.unary_unary),
                    deserializer=handler.request_deserializer,
                    serializer=handler.response_serializer,
                    is_streaming=handler.response_streaming,
                )
            )


class _ByName:
    """Looks methods up by their names in several objects."""

    def __init__(self, features: Sequence[object]) -> None:
        self._features = features

    def __getattr__(self, name: str) -> Any:
        found = [feature for feature in self._features if hasattr(feature, name)]
        if len(found) != 1:
            message = (
                f"{name} should be a method of one feature; it is one of {[type(each).__name__ for each in found]}"
            )
            raise TypeError(message)
        return getattr(found[0], name)
