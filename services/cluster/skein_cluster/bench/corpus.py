"""A corpus: messages, memories and questions as JSON lines, in groups that do not see each other.

docs/guides/measuring.md describes the format to people; the tables here are the same description for the program.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from google.protobuf.message import Message

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import curation_pb2, memory_pb2
from skein.session.v1 import session_pb2
from skein_cluster.bench.conversations import BenchQuestion
from skein_importers.records import RecordInvalid, parse, parse_time
from skein_kit.errors import FieldInvalid
from skein_kit.json_values import exact
from skein_kit.rpc.interceptors import validate

# Of lines that name no group, and of questions that name no category.
DEFAULT_GROUP = "default"
DEFAULT_CATEGORY = "other"


class CorpusKind(StrEnum):
    """Kinds of lines."""

    MESSAGE = "message"
    MEMORY = "memory"
    QUESTION = "question"


# Fields of a memory that name a memory of an earlier line.
_RELATIONS = ("supersedes", "alias_of")
_REQUIRED: Mapping[CorpusKind, tuple[str, ...]] = {
    CorpusKind.MESSAGE: ("id", "session_id", "role", "content"),
    CorpusKind.MEMORY: ("id", "content"),
    CorpusKind.QUESTION: ("id", "query", "expected_ids"),
}
_OPTIONAL: Mapping[CorpusKind, tuple[str, ...]] = {
    CorpusKind.MESSAGE: ("name", "create_time", "group"),
    CorpusKind.MEMORY: (
        *("title", "type", "key", "tags", "scope", "agent_id", "subject_id", "session_id"),
        *("create_time", "valid_from_time", "valid_to_time", "supersedes", "alias_of", "group"),
    ),
    CorpusKind.QUESTION: ("category", "exact", "agent_id", "subject_id", "session_id", "valid_at_time", "group"),
}
# Fields that this module reads itself. The others are those of the import format, which checks them.
_TEXTS = ("id", "query", "content", "category", "group", *_RELATIONS)
# Who sees a memory of a scope: those who ask with the field's value.
_SCOPE_FIELDS = {"agent": "agent_id", "user": "subject_id", "session": "session_id"}
# Fields that have another name in the contract.
_NAMES = {"external_id": "id"}
_EXAMPLES: Mapping[CorpusKind, str] = {
    CorpusKind.MESSAGE: '{"kind": "message", "id": "m1", "session_id": "s1", "role": "user", "content": "Tea, please"}',
    CorpusKind.MEMORY: '{"kind": "memory", "id": "m2", "content": "Ann drinks tea."}',
    CorpusKind.QUESTION: '{"kind": "question", "id": "q1", "query": "What does Ann drink?", "expected_ids": ["m2"]}',
}


@dataclass(frozen=True, kw_only=True, slots=True)
class CorpusGroup:
    """The items of one tenant, in order, and the questions that are asked there."""

    name: str
    memories: list[memory_pb2.Memory] = field(default_factory=list)
    messages: list[session_pb2.Message] = field(default_factory=list)
    # Both name memories by external ids.
    links: list[memory_pb2.Link] = field(default_factory=list)
    aliases: list[curation_pb2.ResolveEntityRequest] = field(default_factory=list)
    questions: list[BenchQuestion] = field(default_factory=list)

    def aliases_of(self, names: Collection[str]) -> frozenset[str]:
        """Return the ids of all aliases of some memories, other than these memories."""
        result = set(names)
        # An alias is on a later line than what it refers to.
        for alias in self.aliases:
            if alias.canonical_memory_id in result:
                result.add(alias.alias_memory_id)
        return frozenset(result.difference(names))


def read_corpus(path: Path) -> list[CorpusGroup]:
    """Read the groups that have questions, in the order of their first lines.

    Raises RecordInvalid, which names a line at fault and says what to do; its hint is a line that works.
    """
    readers: dict[str, _GroupReader] = {}
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                kind, values = _checked_line(line)
                name = values.pop("group", DEFAULT_GROUP)
                if name not in readers:
                    readers[name] = _GroupReader(name)
                readers[name].add(number, kind, values)
            except RecordInvalid as error:
                raise RecordInvalid(f"Line {number}: {error}", error.hint) from None
    groups = [reader.finish() for reader in readers.values()]
    with_questions = [group for group in groups if group.questions]
    if not with_questions:
        raise RecordInvalid("There is no question: add a line for each.", _EXAMPLES[CorpusKind.QUESTION])
    return with_questions


def read_questions(path: Path) -> list[BenchQuestion]:
    """Read a file of questions alone, whose expected ids are those of a tenant's items. Raises RecordInvalid.

    A line needs `query` and `expected_ids`. Its `id` is its number, unless it has one.
    """
    questions: dict[str, BenchQuestion] = {}
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                try:
                    _add_question(line, str(number), questions)
                except RecordInvalid as error:
                    raise RecordInvalid(f"Line {number}: {error}", error.hint) from None
    if not questions:
        raise RecordInvalid("There is no question: add a line for each.", _EXAMPLES[CorpusKind.QUESTION])
    return list(questions.values())


def _add_question(line: bytes, default_id: str, questions: dict[str, BenchQuestion]) -> None:
    kind, values = _checked_line(line, {"kind": CorpusKind.QUESTION.value, "id": default_id})
    if kind is not CorpusKind.QUESTION or "group" in values:
        raise RecordInvalid("is for `skein bench corpus`, which stores items; keep questions without a group.")
    if values["id"] in questions:
        raise RecordInvalid(f'id: "{values["id"]}" is the id of an earlier line; give each its own.')
    questions[values["id"]] = _question(values)


class _GroupReader:
    """Collects the lines of one group."""

    def __init__(self, name: str) -> None:
        self._group = CorpusGroup(name=name)
        # Lines by the ids of messages and memories, and by those of questions.
        self._item_lines: dict[str, int] = {}
        self._question_lines: dict[str, int] = {}
        self._memory_ids: set[str] = set()

    def add(self, number: int, kind: CorpusKind, values: dict[str, Any]) -> None:
        """Add one line. Raises RecordInvalid."""
        is_question = kind is CorpusKind.QUESTION
        lines = self._question_lines if is_question else self._item_lines
        earlier = lines.setdefault(values["id"], number)
        if earlier != number:
            what = "question" if is_question else "message and memory"
            raise RecordInvalid(
                f'id: "{values["id"]}" is the id of line {earlier} too; give each {what} of a group its own.'
            )
        if kind is CorpusKind.QUESTION:
            self._group.questions.append(_question(values))
        elif kind is CorpusKind.MEMORY:
            self._add_relations(values)
            self._group.memories.append(_item(kind, values))
        else:
            self._group.messages.append(_item(kind, values))

    def _add_relations(self, values: dict[str, Any]) -> None:
        """Take the names of earlier memories out of a memory's values. Raises RecordInvalid."""
        for name in _RELATIONS:
            if name in values and values[name] not in self._memory_ids:
                raise RecordInvalid(
                    f'{name}: no memory on an earlier line of the group "{self._group.name}" has the id '
                    f'"{values[name]}"; correct it, or move that line up.'
                )
        item_id = values["id"]
        self._memory_ids.add(item_id)
        if superseded_id := values.pop("supersedes", ""):
            link = memory_pb2.Link(from_memory_id=item_id, to_memory_id=superseded_id, relation="supersedes")
            self._group.links.append(link)
        if canonical_id := values.pop("alias_of", ""):
            alias = curation_pb2.ResolveEntityRequest(alias_memory_id=item_id, canonical_memory_id=canonical_id)
            self._group.aliases.append(alias)

    def finish(self) -> CorpusGroup:
        """Return the group. Raises RecordInvalid for a question that expects an item of no line."""
        for question in self._group.questions:
            for name in sorted(question.evidence - self._item_lines.keys()):
                line = self._question_lines[question.question_id]
                raise RecordInvalid(
                    f"Line {line}: expected_ids: no message or memory of the group "
                    f'"{self._group.name}" has the id "{name}"; correct it, or give both lines the same group.'
                )
        return self._group


def _checked_line(line: bytes, defaults: Mapping[str, str] | None = None) -> tuple[CorpusKind, dict[str, Any]]:
    """Return the kind of a line and its fields, of which none is unknown, missing or null.

    `defaults` are the values of fields that are left out.
    """
    try:
        values = exact.loads(line)
        exact.check_characters(values)
    except (ValueError, ArithmeticError, RecursionError) as error:
        reason = str(error).removeprefix("is not JSON: ")
        raise RecordInvalid(
            f"is not JSON in UTF-8 ({reason}); write one object a line.", _EXAMPLES[CorpusKind.MEMORY]
        ) from None
    if not isinstance(values, dict):
        raise RecordInvalid("is no JSON object; write one object a line.", _EXAMPLES[CorpusKind.MEMORY])
    present = dict(defaults or {}) | {name: value for name, value in values.items() if value is not None}
    name = present.pop("kind", None)
    if name not in list(CorpusKind):
        raise RecordInvalid(
            f"kind: is {exact.dumps(name)}; use one of {', '.join(CorpusKind)}.", _EXAMPLES[CorpusKind.MEMORY]
        )
    kind = CorpusKind(name)
    _check_fields(kind, present)
    return kind, present


def _check_fields(kind: CorpusKind, values: Mapping[str, Any]) -> None:
    known = (*_REQUIRED[kind], *_OPTIONAL[kind])
    example = _EXAMPLES[kind]
    for name in sorted(values.keys() - set(known)):
        raise RecordInvalid(f"{name}: no such field in a {kind}; remove it, or use one of {', '.join(known)}.", example)
    for name in _REQUIRED[kind]:
        if name not in values:
            raise RecordInvalid(f"{name}: a {kind} needs it; add it.", example)
    for name in sorted(values.keys() & set(_TEXTS)):
        if not isinstance(values[name], str) or not values[name].strip():
            raise RecordInvalid(f"{name}: should be a text that holds more than spaces; quote a number.", example)


def _question(values: Mapping[str, Any]) -> BenchQuestion:
    expected = values["expected_ids"]
    if not isinstance(expected, list) or not all(isinstance(name, str) for name in expected):
        raise RecordInvalid(
            "expected_ids: should be a list of texts, empty for a question without an answer; quote numbers.",
            _EXAMPLES[CorpusKind.QUESTION],
        )
    is_exact = values.get("exact", False)
    if not isinstance(is_exact, bool):
        raise RecordInvalid("exact: should be true or false, without quotes.", _EXAMPLES[CorpusKind.QUESTION])
    filter_ = _filter(values)
    _check_rules(CorpusKind.QUESTION, gateway_pb2.RecallRequest(query=values["query"], filter=filter_))
    return BenchQuestion(
        values["query"],
        values.get("category", DEFAULT_CATEGORY),
        frozenset(expected),
        question_id=values["id"],
        is_exact=is_exact,
        filter=filter_,
    )


def _filter(values: Mapping[str, Any]) -> memory_pb2.MemoryFilter:
    """Return who asks and for which time. A question without them sees all memories and messages."""
    result = memory_pb2.MemoryFilter()
    for name in _SCOPE_FIELDS.values():
        if name in values:
            if not isinstance(values[name], str) or not values[name]:
                raise RecordInvalid(
                    f"{name}: should be a text that is not empty; quote a number.", _EXAMPLES[CorpusKind.QUESTION]
                )
            setattr(result.visible_to, name, values[name])
    if "valid_at_time" in values:
        try:
            result.valid_at_time.CopyFrom(parse_time(values["valid_at_time"]))
        except RecordInvalid as error:
            raise RecordInvalid(f"valid_at_time: {error}; correct it.", _EXAMPLES[CorpusKind.QUESTION]) from None
    return result


def _item(kind: CorpusKind, values: Mapping[str, Any]) -> Any:
    """Return the message or the memory, as an import reads it."""
    fields = {name: value for name, value in values.items() if name != "id"}
    try:
        record = parse("", exact.dumps({"record": kind.value, "external_id": values["id"], **fields}))
    except RecordInvalid as error:
        raise RecordInvalid(f"{error}; correct it.", _EXAMPLES[kind]) from None
    scope = values.get("scope")
    if scope in _SCOPE_FIELDS and not values.get(_SCOPE_FIELDS[scope]):
        raise RecordInvalid(f'scope: "{scope}" needs {_SCOPE_FIELDS[scope]}; add it.', _EXAMPLES[kind])
    _check_rules(kind, record.item)
    return record.item


def _check_rules(kind: CorpusKind, message: Message) -> None:
    """Refuse what the contract refuses, such as a title that is too long, before anything is written."""
    try:
        validate(message)
    except FieldInvalid as error:
        path, reason = error.violations[0]
        name = path.rpartition(".")[2]
        raise RecordInvalid(f"{_NAMES.get(name, name)}: {reason}; correct it.", _EXAMPLES[kind]) from None
