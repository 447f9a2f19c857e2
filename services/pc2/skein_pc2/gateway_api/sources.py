"""Sources of what an assistant stores: the agent and the person that its message names, which may be rated. Pure.

Assistants that share an API key have one principal, which is the verified author of all that they store. What a message
names is a claim, as the source_agent of a memory is.
"""

from __future__ import annotations

from collections.abc import Sequence

from google.protobuf.message import Message

from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein_kit.text.source_keys import source_key
from skein_pc2.protocol.sender import Sender


def name_sources(request: Message, sender: Sender) -> None:
    """Add the sender of a message to what it stores, unless that names its source itself. A repeat changes nothing."""
    match request:
        case memory_pb2.CreateMemoryRequest():
            _name_agent([request.memory], sender.agent_id)
        case memory_pb2.BatchCreateMemoriesRequest():
            _name_agent(request.memories, sender.agent_id)
        case session_pb2.AppendMessagesRequest():
            for message in request.messages:
                is_persons = message.role == session_pb2.MESSAGE_ROLE_USER
                message.sender_id = message.sender_id or (message.subject_id if is_persons else sender.agent_id)


def _name_agent(memories: Sequence[memory_pb2.Memory], agent_id: str) -> None:
    if not agent_id:
        return
    key = source_key(agent_id)
    for memory in memories:
        names = [memory.source, memory.source_agent, *(source.name for source in memory.derived_from)]
        if key not in map(source_key, names):
            memory.derived_from.add(kind=memory_pb2.SOURCE_KIND_AGENT, name=agent_id)
