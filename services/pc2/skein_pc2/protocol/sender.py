"""Who sent a message: the address of its connection, and the agent and session that it names. Pure.

The access log has all three with the calls that answer the message. The agent is a source of what the message stores.
Nothing verifies what the message names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

# Names of the fields, and the objects of a message that may have them; the message itself comes first.
_AGENT_FIELDS, _SESSION_FIELDS = ("agent_id", "source_agent", "created_by"), ("session_id",)
_OBJECTS = ("payload", "data", "content", "memory")

# A list of memories, each of which may name an agent.
_LIST = "memories"
_MAX_NAME_CHARACTERS = 255

_address: ContextVar[str] = ContextVar("skein_pc2_address", default="")


@dataclass(frozen=True, kw_only=True, slots=True)
class Sender:
    """The origin of a message; a field is empty where it is unknown."""

    address: str = ""
    agent_id: str = ""
    session_id: str = ""
    # The first agent that one of several memories in the message names.
    item_agent_id: str = ""

    @classmethod
    def of(cls, message: Mapping[str, Any]) -> Sender:
        """Return the sender of a message that came by the current connection."""
        objects = _objects(message)
        return cls(
            address=_address.get(),
            agent_id=_storable(_first_text(objects, _AGENT_FIELDS)),
            session_id=_first_text(objects, _SESSION_FIELDS),
            item_agent_id=_storable(_first_text(_items(objects), _AGENT_FIELDS)),
        )


UNKNOWN = Sender()


@contextmanager
def connected_from(address: str) -> Iterator[None]:
    """Take `address` for that of the messages that are answered while the block runs."""
    token = _address.set(address)
    try:
        yield
    finally:
        _address.reset(token)


def _objects(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a message and the objects in it that describe what it stores."""
    found = [message]
    for each in found:
        found += [each[name] for name in _OBJECTS if isinstance(each.get(name), dict)]
    return found


def _items(objects: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the memories in a list of a message, with their contents."""
    lists = [each[_LIST] for each in objects if isinstance(each.get(_LIST), list)]
    return [part for items in lists for item in items if isinstance(item, dict) for part in _objects(item)]


def _storable(name: str) -> str:
    """Return a name as the services store it: valid, trimmed and not too long."""
    text = name.encode("utf-8", "replace").decode().replace("\x00", "")
    return text.strip()[:_MAX_NAME_CHARACTERS].rstrip()


def _first_text(objects: list[Mapping[str, Any]], names: tuple[str, ...]) -> str:
    texts = (each.get(name) for each in objects for name in names)
    return next((text for text in texts if isinstance(text, str) and text), "")
