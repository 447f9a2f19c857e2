"""What tests do again and again, a line each: typed calls that build the request, make the call and unwrap the answer.

Keywords are fields of the resource, or else of the request: `create_memory("likes tea", key="drink", request_id="r")`.
A list comes with all of its pages.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from skein.gateway.v1 import gateway_pb2, gateway_pb2_grpc
from skein.memory.v1 import blocks_pb2, blocks_pb2_grpc, memory_pb2, memory_pb2_grpc
from skein.recall.v1 import recall_pb2, recall_pb2_grpc
from skein.session.v1 import session_pb2, session_pb2_grpc
from skein.tenancy.v1 import subjects_pb2, tenancy_pb2, tenancy_pb2_grpc

R = TypeVar("R", bound="Message")
USER = session_pb2.MESSAGE_ROLE_USER


def struct(**values: Any) -> Struct:
    """Return the values as protobuf's JSON object."""
    return ParseDict(values, Struct())


def stamp(time: datetime) -> Timestamp:
    """Return a time as protobuf's."""
    result = Timestamp()
    result.FromDatetime(time)
    return result


def filled(request_type: type[R], resource: Message, name: str, fields: dict[str, Any]) -> R:
    """Return a request that carries the resource, with each field where it belongs: in the resource, or beside it."""
    of_resource = {key: value for key, value in fields.items() if key in resource.DESCRIPTOR.fields_by_name}
    beside = {key: value for key, value in fields.items() if key not in of_resource}
    resource.MergeFrom(type(resource)(**of_resource))
    return request_type(**{name: resource}, **beside)


def change(request_type: type[R], resource: Message, name: str, fields: dict[str, Any]) -> R:
    """Return a request that changes the named fields; a revision is compared and not changed."""
    known = resource.DESCRIPTOR.fields_by_name
    paths = [key for key in fields if key in known and key != "revision"]
    return filled(request_type, resource, name, {**fields, "update_mask": FieldMask(paths=paths)})


async def all_pages(call: Callable[[Any], Awaitable[Any]], request: Any, items: str) -> list[Any]:
    """Return the items of every page, beginning with the request's."""
    results: list[Any] = []
    while True:
        page = await call(request)
        results += getattr(page, items)
        if not page.next_page_token:
            return results
        request.page_token = page.next_page_token


class Calls:
    """The typed calls of a caller that has the services' stubs."""

    if TYPE_CHECKING:

        @property
        def memory(self) -> memory_pb2_grpc.MemoryServiceAsyncStub: ...
        @property
        def links(self) -> memory_pb2_grpc.LinkServiceAsyncStub: ...
        @property
        def blocks(self) -> blocks_pb2_grpc.BlockServiceAsyncStub: ...
        @property
        def sessions(self) -> session_pb2_grpc.SessionServiceAsyncStub: ...
        @property
        def tenancy(self) -> tenancy_pb2_grpc.TenancyServiceAsyncStub: ...
        @property
        def recall(self) -> recall_pb2_grpc.RecallServiceAsyncStub: ...
        @property
        def gateway(self) -> gateway_pb2_grpc.GatewayServiceAsyncStub: ...

    async def create_memory(self, content: str = "x", **fields: Any) -> memory_pb2.Memory:
        memory = memory_pb2.Memory(content=content)
        return (await self.memory.CreateMemory(filled(memory_pb2.CreateMemoryRequest, memory, "memory", fields))).memory

    async def remember(self, content: str = "x", **fields: Any) -> str:
        """Store a memory and return its id."""
        return (await self.create_memory(content, **fields)).memory_id

    async def create_memories(self, *drafts: str | dict[str, Any], **fields: Any) -> list[memory_pb2.Memory]:
        """Store memories of these contents or fields in one call."""
        memories = [
            memory_pb2.Memory(**({"content": each} if isinstance(each, str) else {"content": "x", **each}))
            for each in drafts
        ]
        request = memory_pb2.BatchCreateMemoriesRequest(memories=memories, **fields)
        return list((await self.memory.BatchCreateMemories(request)).memories)

    async def get_memory(self, memory_id: str, **fields: Any) -> memory_pb2.Memory:
        request = memory_pb2.GetMemoryRequest(memory_id=memory_id, **fields)
        return (await self.memory.GetMemory(request)).memory

    async def update_memory(self, memory_id: str, **fields: Any) -> memory_pb2.Memory:
        memory = memory_pb2.Memory(memory_id=memory_id)
        return (await self.memory.UpdateMemory(change(memory_pb2.UpdateMemoryRequest, memory, "memory", fields))).memory

    async def delete_memory(self, memory_id: str, **fields: Any) -> None:
        await self.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=memory_id, **fields))

    async def purge_memories(self, *memory_ids: str, **fields: Any) -> memory_pb2.PurgeMemoriesResponse:
        selection = memory_pb2.MemorySelection(memory_ids=memory_ids)
        return await self.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection=selection, **fields))

    async def list_memories(self, **fields: Any) -> list[memory_pb2.Memory]:
        return await all_pages(self.memory.ListMemories, memory_pb2.ListMemoriesRequest(**fields), "memories")

    async def create_link(self, start: str, end: str, relation: str = "related", **fields: Any) -> memory_pb2.Link:
        link = memory_pb2.Link(from_memory_id=start, to_memory_id=end, relation=relation)
        return (await self.links.CreateLink(filled(memory_pb2.CreateLinkRequest, link, "link", fields))).link

    async def list_links(self, memory_id: str, **fields: Any) -> list[memory_pb2.Link]:
        request = memory_pb2.ListLinksRequest(memory_id=memory_id, **fields)
        return await all_pages(self.links.ListLinks, request, "links")

    async def create_block(self, label: str = "human", value: str = "", **fields: Any) -> blocks_pb2.Block:
        block = blocks_pb2.Block(label=label, value=value)
        return (await self.blocks.CreateBlock(filled(blocks_pb2.CreateBlockRequest, block, "block", fields))).block

    async def get_block(self, block_id: str, **fields: Any) -> blocks_pb2.Block:
        return (await self.blocks.GetBlock(blocks_pb2.GetBlockRequest(block_id=block_id, **fields))).block

    async def update_block(self, block_id: str, **fields: Any) -> blocks_pb2.Block:
        block = blocks_pb2.Block(block_id=block_id)
        return (await self.blocks.UpdateBlock(change(blocks_pb2.UpdateBlockRequest, block, "block", fields))).block

    async def append_to_block(self, block_id: str, text: str, **fields: Any) -> blocks_pb2.Block:
        request = blocks_pb2.AppendToBlockRequest(block_id=block_id, text=text, **fields)
        return (await self.blocks.AppendToBlock(request)).block

    async def create_session(self, session_id: str = "", **fields: Any) -> session_pb2.Session:
        session = session_pb2.Session(session_id=session_id)
        request = filled(session_pb2.CreateSessionRequest, session, "session", fields)
        return (await self.sessions.CreateSession(request)).session

    async def get_session(self, session_id: str, **fields: Any) -> session_pb2.Session:
        request = session_pb2.GetSessionRequest(session_id=session_id, **fields)
        return (await self.sessions.GetSession(request)).session

    async def update_session(self, session_id: str, **fields: Any) -> session_pb2.Session:
        session = session_pb2.Session(session_id=session_id)
        request = change(session_pb2.UpdateSessionRequest, session, "session", fields)
        return (await self.sessions.UpdateSession(request)).session

    async def append(
        self, session_id: str, *messages: str | session_pb2.Message, **fields: Any
    ) -> list[session_pb2.Message]:
        """Append messages; a text is one of the user's. The session is opened if it is not there."""
        sent = [
            session_pb2.Message(role=USER, content=each) if isinstance(each, str) else each for each in messages
        ]  # fmt: skip
        request = session_pb2.AppendMessagesRequest(
            session_id=session_id, messages=sent, **{"create_session": True, **fields}
        )
        return list((await self.sessions.AppendMessages(request)).messages)

    async def list_messages(self, session_id: str, **fields: Any) -> list[session_pb2.Message]:
        request = session_pb2.ListMessagesRequest(session_id=session_id, **fields)
        return await all_pages(self.sessions.ListMessages, request, "messages")

    async def create_agent(self, agent_id: str = "", **fields: Any) -> tenancy_pb2.Agent:
        agent = tenancy_pb2.Agent(agent_id=agent_id)
        return (await self.tenancy.CreateAgent(filled(tenancy_pb2.CreateAgentRequest, agent, "agent", fields))).agent

    async def create_subject(self, subject_id: str = "", **fields: Any) -> subjects_pb2.Subject:
        subject = subjects_pb2.Subject(subject_id=subject_id)
        request = filled(subjects_pb2.CreateSubjectRequest, subject, "subject", fields)
        return (await self.tenancy.CreateSubject(request)).subject

    async def set_policy(self, **fields: Any) -> subjects_pb2.Policy:
        """Change these fields of the tenant's policy."""
        request = change(subjects_pb2.UpdatePolicyRequest, subjects_pb2.Policy(), "policy", fields)
        return (await self.tenancy.UpdatePolicy(request)).policy

    async def search(self, query: str, **fields: Any) -> recall_pb2.RecallResponse:
        """Search the tenant's items, as the recall service does it."""
        return await self.recall.Recall(recall_pb2.RecallRequest(query=query, **fields))

    async def ask(self, query: str, **fields: Any) -> gateway_pb2.RecallResponse:
        """Recall through the gateway, with all of its branches."""
        return await self.gateway.Recall(gateway_pb2.RecallRequest(query=query, **fields))

    async def forget(self, subject_id: str, **fields: Any) -> gateway_pb2.ForgetResponse:
        return await self.gateway.Forget(gateway_pb2.ForgetRequest(subject_id=subject_id, **fields))
