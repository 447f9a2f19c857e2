"""What the exports of assistants' web applications share: conversations in one list, read one by one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from skein.session.v1 import session_pb2
from skein_importers.errors import SourceInvalid
from skein_importers.records import Kind, Record, UnreadableRecord
from skein_importers.sources.assistant_store import convert_rows, metadata_of
from skein_importers.sources.base import Notes
from skein_importers.sources.documents import SingleRealmSource, kept_fields, row_of
from skein_importers.sources.json_stream import entries
from skein_importers.sources.rows import Row, list_value, to_timestamp

CONVERSATIONS, MESSAGES = "conversations", "messages"
_TITLE = 1000
_SUMMARY = 100_000
_MAX_ID = 255


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportFormat:
    """The form of an application's export."""

    name: str
    # Of the application, for messages.
    system: str
    # Before the conversation's id in the session's.
    prefix: str
    # Fields of a conversation with its id, in the order of preference.
    ids: tuple[str, ...]
    title: str
    summary: str
    create_time: str
    update_time: str
    # The field with the messages, by which a conversation is known.
    messages: str
    # Further fields that have a place here.
    mapped: Collection[str]
    is_hidden: Callable[[Row], bool]
    # Returns the messages of a conversation in their order, as rows.
    rows: Callable[[Row], Iterable[Row]]
    # Returns a message without its ids; None for one that has nothing to say, which it notes.
    message: Callable[[Row], session_pb2.Message | None]

    def open(self, path: str) -> SingleRealmSource:
        """Open a file that has a conversation, or none at all. Raises SourceInvalid."""
        for name, value in entries(path, (), self.ids):
            if name or not isinstance(value, dict) or not isinstance(value.get(self.messages), (dict, list)):
                raise SourceInvalid(
                    f"{path} is no export of {self.system}: SOURCE is the conversations.json of the archive, a list of "
                    f"conversations with {self.messages}."
                )
            break
        return SingleRealmSource(self.name, lambda notes: self._records(path, notes))

    def _records(self, path: str, notes: Notes) -> Iterator[Record | UnreadableRecord]:
        """Read the conversations, then their messages."""
        yield from convert_rows(self._conversations(path, notes), self._session)
        for conversation in self._conversations(path, notes):
            if self._id(conversation):
                yield from self._messages(conversation)

    def _conversations(self, path: str, notes: Notes) -> Iterator[Row]:
        for number, (_, value) in enumerate(entries(path, (), self.ids), 1):
            if isinstance(value, dict):
                key = next((name for name in self.ids if value.get(name)), self.ids[0])
                yield row_of(value, CONVERSATIONS, key, number, notes, f"metadata.{self.prefix}")

    def _id(self, row: Row) -> str:
        identity = next((text for name in self.ids if (text := row.text(name).strip())), "")
        return f"{self.prefix}:{identity}"[:_MAX_ID] if identity else ""

    def _session(self, row: Row) -> Iterator[Record]:
        extra = kept_fields(
            row,
            (*self.ids, self.title, self.summary, self.create_time, self.update_time, self.messages, *self.mapped),
        )
        if not self._id(row):
            row.required_text(self.ids[0])
        session = session_pb2.Session(
            session_id=self._id(row), title=row.text(self.title, _TITLE), summary=row.text(self.summary, _SUMMARY)
        )
        for column, field in ((self.create_time, session.create_time), (self.update_time, session.update_time)):
            if (time := row.time(column)) is not None:
                field.CopyFrom(to_timestamp(time))
        if self.is_hidden(row):
            session.state = session_pb2.SESSION_STATE_HIDDEN
        if extra and (metadata := metadata_of("metadata", {self.prefix: extra})) is not None:
            session.metadata.CopyFrom(metadata)
        yield Record(where=row.where, kind=Kind.SESSION, item=session, table=row.table)

    def _messages(self, conversation: Row) -> Iterator[Record | UnreadableRecord]:
        session_id = self._id(conversation)

        def convert(row: Row) -> Iterator[Record]:
            message = self.message(row)
            if message is None:
                return
            message.session_id = session_id
            message.external_id = f"{session_id}/{row.key}"[-_MAX_ID:]
            yield Record(where=row.where, kind=Kind.MESSAGE, item=message, table=row.table)

        yield from convert_rows(self.rows(conversation), convert)


def set_parts(message: session_pb2.Message, parts: list[Any]) -> None:
    """Keep the parts of a message that its text does not say."""
    if parts:
        message.parts.CopyFrom(list_value(parts))


def set_metadata(message: session_pb2.Message, prefix: str, extra: dict[str, Any]) -> None:
    """Keep the fields of a message that have no place here."""
    if extra and (metadata := metadata_of("metadata", {prefix: extra})) is not None:
        message.metadata.CopyFrom(metadata)
