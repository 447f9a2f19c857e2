"""Example requests of the OpenAPI document, for the methods that most callers start with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "/skein.gateway.v1.GatewayService/Remember": {
        "sessionId": "kitchen",
        "messages": [{"role": "MESSAGE_ROLE_USER", "content": "What do we have to drink?"}],
        "memories": [{"content": "Anna prefers tea to coffee", "tags": ["drinks"]}],
        "requestId": "3f1c2a",
    },
    "/skein.gateway.v1.GatewayService/Recall": {"query": "what does Anna drink?", "limit": 3},
    "/skein.gateway.v1.GatewayService/BuildContext": {
        "recall": {"query": "what does Anna drink?"},
        "tokenBudget": 500,
    },
    "/skein.memory.v1.MemoryService/CreateMemory": {
        "memory": {"type": "fact", "key": "anna.drink", "content": "Anna prefers tea", "importance": 0.8}
    },
    "/skein.memory.v1.MemoryService/GetMemory": {"memoryId": "anna-drinks-tea"},
    "/skein.memory.v1.MemoryService/ListMemories": {
        "filter": {"types": ["note", "fact"], "where": 'tags:any("drinks") AND importance >= 0.5'},
        "pageSize": 20,
    },
    "/skein.memory.v1.MemoryService/UpdateMemory": {
        "memory": {"memoryId": "anna-drinks-tea", "content": "Anna prefers green tea"},
        "updateMask": "content",
    },
    "/skein.memory.v1.LinkService/CreateLink": {
        "link": {"fromMemoryId": "anna-drinks-tea", "toMemoryId": "no-more-coffee", "relation": "supports"}
    },
    "/skein.session.v1.SessionService/AppendMessages": {
        "sessionId": "kitchen",
        "messages": [{"role": "MESSAGE_ROLE_ASSISTANT", "content": "Green tea, and some lemonade."}],
    },
    "/skein.session.v1.SessionService/ListMessages": {"sessionId": "kitchen", "pageSize": 50, "newestFirst": True},
}
