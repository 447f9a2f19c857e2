"""The steps around a method's own work: space, access log, repeats, content guard, approval.

The proto declares all of them but repeats, which every write has, and the space of an id that several spaces may have.

A service that serves a method without a step which the method declares cannot start.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from skein.options.v1 import options_pb2 as pb
from skein_kit.approval import is_gated
from skein_kit.idempotency.store import AnsweredBefore
from skein_kit.rpc.declarations import GATEWAY, audit_rule, is_recorded, method_rule, response_class, screening

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

    from skein_kit.access_log.refusals import RefusalRecorder
    from skein_kit.access_log.writer import AccessLog
    from skein_kit.approval import ApprovalGate
    from skein_kit.calls.call import Call
    from skein_kit.content_guard.guard import ContentGuard
    from skein_kit.rpc.streaming import Messages

    Handler = Callable[[Any, Any], Awaitable[Any]]

Step = TypeVar("Step")


@dataclass(frozen=True, kw_only=True, slots=True)
class DeclaredSteps:
    """The steps that one service has."""

    access_log: AccessLog | None = None
    gate: ApprovalGate | None = None
    guard: ContentGuard | None = None
    # Records the calls that end before the access log has them; None: they are not recorded.
    refusals: RefusalRecorder | None = None
    # Narrows a read of several spaces to the one in which lies what it names; None: no two things have one id.
    locate: Callable[[Any, Call], Awaitable[None]] | None = None
    # Store the writes that wait for approval, by path.
    waiting: Mapping[str, Handler] = field(default_factory=dict)

    def wrap(self, path: str, handler: Handler) -> Handler:
        """Wrap a method's handler in what it declares.

        Raises LookupError for a declaration that is missing, and for a step that the service lacks.
        """
        rule = method_rule(path)
        audit_rule(path)
        if is_gated(rule):
            waiting = self.waiting.get(path)
            if (rule.approval == pb.APPROVAL_RULE_WAITS) != (waiting is not None):
                message = f"{path}: what waits for approval is stored by the methods that declare it, and by no other."
                raise LookupError(message)
            handler = _present(self.gate, path, "the approval gate").wrap(handler, waiting)
        if screening(path) == pb.SCREENING_RULE_CHAIN:
            handler = _present(self.guard, path, "the content guard").wrap(handler)
        handler = _answer_repeats(path, handler)
        if is_recorded(path):
            handler = _present(self.access_log, path, "the access log").wrap(handler)
        return handler if self.locate is None else _locate(self.locate, handler)

    def record_refusals(self, path: str, handler: Handler, *, is_served_here: bool) -> Handler:
        """Wrap the interceptors that refuse calls of a method: one that is recorded, or that the gateway serves."""
        is_own = is_recorded(path) or path.startswith(GATEWAY) or not is_served_here
        return handler if self.refusals is None or not is_own else self.refusals.wrap(path, handler)

    def wrap_stream(self, path: str, messages: Messages) -> Messages:
        """Wrap the messages of a streaming method, which reads and never writes."""
        rule = method_rule(path)
        if is_gated(rule) or rule.screening == pb.SCREENING_RULE_CHAIN:
            message = f"{path} is a stream, which cannot wait for approval or be screened."
            raise LookupError(message)
        if is_recorded(path):
            messages = _present(self.access_log, path, "the access log").wrap_stream(messages)
        return messages if self.locate is None else _locate_stream(self.locate, messages)


def _locate(locate: Callable[[Any, Call], Awaitable[None]], handler: Handler) -> Handler:
    async def answer(request: Any, call: Call) -> Any:
        if len(call.space_ids or ()) > 1:
            await locate(request, call)
        return await handler(request, call)

    return answer


def _locate_stream(locate: Callable[[Any, Call], Awaitable[None]], messages: Messages) -> Messages:
    async def answer(request: Any, call: Call) -> AsyncGenerator[Any, None]:
        if len(call.space_ids or ()) > 1:
            await locate(request, call)
        async with aclosing(messages(request, call)) as stream:
            async for message in stream:
                yield message

    return answer


def _answer_repeats(path: str, handler: Handler) -> Handler:
    """Answer a repeated request with the response of the first one."""
    response_type = response_class(path)

    async def answer(request: Any, call: Any) -> Any:
        try:
            return await handler(request, call)
        except AnsweredBefore as answered:
            return response_type.FromString(answered.response)

    return answer


def _present(step: Step | None, path: str, name: str) -> Step:
    if step is None:
        message = f"{path} needs {name}, which its service does not have."
        raise LookupError(message)
    return step
