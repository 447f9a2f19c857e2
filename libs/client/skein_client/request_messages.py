"""The requests behind the client's short methods; both clients send the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein_client import exact_json

# A message as itself, or as a dict with a role by its plain name.
MessageInput: TypeAlias = session_pb2.Message | Mapping[str, Any]
# A search mode as itself, or by its plain name.
Mode: TypeAlias = recall_pb2.SearchMode | Literal["hybrid", "keyword", "semantic"]
# A memory as itself, as its content alone, or as a dict of its fields with plain names for enum values.
MemoryInput: TypeAlias = memory_pb2.Memory | Mapping[str, Any] | str
# What happens if a stored memory says the same, as itself or by its plain name.
OnSimilar: TypeAlias = memory_pb2.OnSimilar | Literal["keep", "return", "reinforce"]
# What happens with a fact whose key another one has, as itself or by its plain name.
OnConflict: TypeAlias = memory_pb2.OnConflict | Literal["fail", "update", "return", "supersede"]
# A branch as itself, or by its plain name.
Branch: TypeAlias = gateway_pb2.Branch | Literal["memories", "messages", "blocks", "profile", "window"]
_ROLES = {
    name.removeprefix("MESSAGE_ROLE_").lower(): number
    for name, number in session_pb2.MessageRole.items()
    if number != session_pb2.MESSAGE_ROLE_UNSPECIFIED
}
# JSON fields: Python values keep every digit.
_JSON = ("parts", "tool_calls", "tool_returns", "metadata")
_MODES: Mapping[str, recall_pb2.SearchMode] = {
    "hybrid": recall_pb2.SEARCH_MODE_HYBRID,
    "keyword": recall_pb2.SEARCH_MODE_KEYWORD,
    "semantic": recall_pb2.SEARCH_MODE_SEMANTIC,
}


def search_mode(mode: Mode) -> recall_pb2.SearchMode:
    """Return a mode by its plain name, such as "keyword", or a SearchMode as it is. Raises ValueError for others."""
    if not isinstance(mode, str):
        return mode
    if mode not in _MODES:
        text = f"a search mode is {', '.join(_MODES)}, not {mode!r}"
        raise ValueError(text)
    return _MODES[mode]


def search_branch(branch: Branch) -> gateway_pb2.Branch:
    """Return a branch by its plain name, as "memories", or a Branch as it is. Raises ValueError for other names."""
    if not isinstance(branch, str):
        return branch
    value: Any = gateway_pb2.Branch.Value(_full_name(gateway_pb2.Branch.DESCRIPTOR, branch))
    number: gateway_pb2.Branch = value
    return number


def _similar_action(on_similar: OnSimilar | None) -> memory_pb2.OnSimilar:
    if on_similar is None:
        return memory_pb2.ON_SIMILAR_UNSPECIFIED
    if not isinstance(on_similar, str):
        return on_similar
    value: Any = memory_pb2.OnSimilar.Value(_full_name(memory_pb2.OnSimilar.DESCRIPTOR, on_similar))
    number: memory_pb2.OnSimilar = value
    return number


def _conflict_action(on_conflict: OnConflict) -> memory_pb2.OnConflict:
    if not isinstance(on_conflict, str):
        return on_conflict
    value: Any = memory_pb2.OnConflict.Value(_full_name(memory_pb2.OnConflict.DESCRIPTOR, on_conflict))
    number: memory_pb2.OnConflict = value
    return number


def parse_memory(memory: MemoryInput) -> memory_pb2.Memory:
    """Build a memory from {"content": "Green tea", "scope": "global"}; other keys are fields of Memory, None is unset.

    Raises ValueError for the name of an unknown enum value.
    """
    if isinstance(memory, memory_pb2.Memory):
        return memory
    fields: dict[str, Any] = {"content": memory} if isinstance(memory, str) else dict(memory)
    for name, value in fields.items():
        field: Any = memory_pb2.Memory.DESCRIPTOR.fields_by_name.get(name)
        if isinstance(value, str) and field is not None and field.enum_type is not None:
            fields[name] = _full_name(field.enum_type, value)
    json_fields = {name: fields.pop(name) for name in ("data", "metadata") if isinstance(fields.get(name), Mapping)}
    result = memory_pb2.Memory(**{name: value for name, value in fields.items() if value is not None})
    return exact_json.with_json(result, **json_fields)


def _full_name(enum: Any, name: str) -> str:
    prefix = enum.values_by_number[0].name.removesuffix("UNSPECIFIED")
    for full_name in (name, f"{prefix}{name.upper()}"):
        if full_name in enum.values_by_name:
            return full_name
    names = ", ".join(value.name.removeprefix(prefix).lower() for value in enum.values if value.number)
    text = f"{enum.name} is {names}, not {name!r}"
    raise ValueError(text)


def parse_message(message: MessageInput) -> session_pb2.Message:
    """Build a message from {"role": "user", "content": "Hello"}; other keys are fields of Message, None is unset."""
    if isinstance(message, session_pb2.Message):
        return message
    fields = {name: value for name, value in message.items() if value is not None}
    role: Any = fields.pop("role", None)
    if not isinstance(role, int):
        if role not in _ROLES:
            text = f"a message's role is {', '.join(_ROLES)}, not {role!r}"
            raise ValueError(text)
        role = _ROLES[role]
    json_fields = {name: fields.pop(name) for name in _JSON if isinstance(fields.get(name), dict | list)}
    return exact_json.with_json(session_pb2.Message(role=role, **fields), **json_fields)


def remember_request(
    memories: MemoryInput | Iterable[MemoryInput],
    messages: MessageInput | Iterable[MessageInput],
    *,
    session_id: str = "",
    subject_id: str = "",
    agent_id: str = "",
    on_similar: OnSimilar | None = None,
    on_conflict: OnConflict = "fail",
    request_id: str = "",
) -> gateway_pb2.RememberRequest:
    if isinstance(messages, str):
        text = 'say who speaks: messages=[{"role": "user", "content": "..."}]'
        raise TypeError(text)
    # A text is a sequence too: each of its letters would become a memory.
    items = [memories] if isinstance(memories, str | memory_pb2.Memory | Mapping) else memories
    return gateway_pb2.RememberRequest(
        session_id=session_id,
        messages=[
            parse_message(message)
            for message in ([messages] if isinstance(messages, session_pb2.Message | Mapping) else messages)
        ],
        memories=[parse_memory(item) for item in items],
        subject_id=subject_id,
        agent_id=agent_id,
        on_similar=_similar_action(on_similar),
        on_conflict=_conflict_action(on_conflict),
        request_id=request_id,
    )


def recall_request(  # noqa: PLR0913 - each has a name.
    query: str,
    *,
    subject_id: str = "",
    limit: int,
    branches: Iterable[Branch],
    filter: memory_pb2.MemoryFilter | None,  # noqa: A002 - the contract's own word.
    min_similarity: float = 0.0,
    min_relevance: float | None = None,
    embedding: Iterable[float] = (),
    mode: Mode = "hybrid",
    as_of_time: datetime | None = None,
) -> gateway_pb2.RecallRequest:
    return gateway_pb2.RecallRequest(
        query=query,
        subject_id=subject_id,
        limit=limit,
        branches=[search_branch(branch) for branch in branches],
        filter=filter,
        min_similarity=min_similarity,
        min_relevance=min_relevance,
        embedding=embedding,
        mode=search_mode(mode),
        as_of_time=as_of_time,
    )


def find_similar_request(
    item_id: str,
    *,
    subject_id: str = "",
    limit: int,
    filter: memory_pb2.MemoryFilter | None,  # noqa: A002 - the contract's own word.
    min_similarity: float,
    mode: Mode,
) -> recall_pb2.FindSimilarRequest:
    return recall_pb2.FindSimilarRequest(
        item_id=item_id,
        subject_id=subject_id,
        limit=limit,
        filter=filter,
        min_similarity=min_similarity,
        mode=search_mode(mode),
    )


def build_context_request(  # noqa: PLR0913 - each has a name.
    query: str,
    *,
    subject_id: str = "",
    token_budget: int,
    session_id: str,
    limit: int,
    branches: Iterable[Branch],
    filter: memory_pb2.MemoryFilter | None,  # noqa: A002 - the contract's own word.
    embedding: Iterable[float],
    mode: Mode,
    as_of_time: datetime | None,
) -> gateway_pb2.BuildContextRequest:
    return gateway_pb2.BuildContextRequest(
        recall=recall_request(
            query,
            subject_id=subject_id,
            limit=limit,
            branches=branches,
            filter=filter,
            embedding=embedding,
            mode=mode,
            as_of_time=as_of_time,
        ),
        token_budget=token_budget,
        session_id=session_id,
    )
