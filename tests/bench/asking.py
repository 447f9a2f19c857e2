"""Recalls through the gateway with each tenant's own key, and what of the answers is counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from bench.exact import WANTED
from bench.loading import value_of
from google.protobuf.timestamp_pb2 import Timestamp

from skein.gateway.v1 import gateway_pb2 as pb
from skein.gateway.v1 import gateway_pb2_grpc
from skein.memory.v1 import memory_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.loading import Member
    from bench.population import Question
    from grpc import aio

SECONDS = 30.0
# A number that is another for every call of the run is put behind a text, so that no cache knows its vector.
_UNSEEN = "{text} ({number})"


@dataclass(frozen=True, slots=True)
class Form:
    """How a question is put."""

    title: str
    with_vector: bool = True
    with_text: bool = False
    # One of the attributes of population, or "time".
    filter_name: str = ""

    @property
    def is_judged(self) -> bool:
        """Say whether the exact neighbours are what the answer shall hold."""
        return self.with_vector and not self.with_text

    def request(self, question: Question, number: int) -> pb.RecallRequest:
        """Return the call."""
        text = _UNSEEN.format(text=question.text, number=number) if self.with_text else ""
        return pb.RecallRequest(
            query=text,
            embedding=question.vector if self.with_vector else (),
            limit=WANTED,
            arms=[pb.ARM_MEMORIES],
            filter=_filter(self.filter_name, question) if self.filter_name else None,
        )


VECTOR = Form("vector given")
HYBRID = Form("hybrid: text and vector given", with_text=True)
TEXT = Form("text only", with_vector=False, with_text=True)
FILTERS = tuple(
    Form(f"vector, filter by {name} (1.6 % pass)", filter_name=name)
    for name in ("tag", "type", "time", "agent", "session")
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    ids: list[UUID]
    # How it was served, as the answer says it; empty where it does not.
    path: str


class Asking:
    """Calls of Recall, each with the key of the question's tenant."""

    def __init__(self, channel: aio.Channel, members: Sequence[Member]) -> None:
        """Call through a channel to the gateway."""
        self._stub = gateway_pb2_grpc.GatewayServiceStub(channel)
        self._metadata = [(("authorization", f"Bearer {member.api_key}"),) for member in members]

    async def ask(self, form: Form, question: Question, number: int) -> Answer:
        """Ask once. Raises RuntimeError when the answer lacks an arm."""
        response = await self._stub.Recall(
            form.request(question, number), metadata=self._metadata[question.tenant], timeout=SECONDS
        )
        if response.incomplete:
            message = "an arm did not answer"
            raise RuntimeError(message)
        return Answer([UUID(hit.item_id) for hit in response.hits], path_of(response))


@dataclass(slots=True)
class Heard:
    """Answers by the number of the call."""

    answers: dict[int, Answer] = field(default_factory=dict)

    def calling(self, asking: Asking, form: Form, questions: Sequence[Question]) -> Callable[[int], Any]:
        """Return a call for each number, whose answers are kept here."""

        async def call(number: int) -> None:
            self.answers[number] = await asking.ask(form, questions[number % len(questions)], number)

        return call


def path_of(response: pb.RecallResponse) -> str:
    """Return the path by which vectors were searched, as far as the answer names it."""
    for message in (response, *response.arms):
        for name in ("dense_path", "path"):
            if name in message.DESCRIPTOR.fields_by_name:
                return str(getattr(message, name))
    return ""


def _filter(name: str, question: Question) -> memory_pb2.MemoryFilter:
    if name == "time":
        return memory_pb2.MemoryFilter(
            start_time=_time(question.from_milliseconds), end_time=_time(question.to_milliseconds)
        )
    value = value_of(name, question.attributes[name])
    fields: dict[str, dict[str, Any]] = {
        "tag": {"tags_any": [value]},
        "type": {"types": [value]},
        "agent": {"agent_id": value},
    }
    return memory_pb2.MemoryFilter(**fields.get(name, {"session_id": value}))


def _time(milliseconds: int) -> Timestamp:
    time = Timestamp()
    time.FromMilliseconds(milliseconds)
    return time
