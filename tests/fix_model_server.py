"""A model on loopback, as OpenAI's and Anthropic's clients call it: it always gives the same answer."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWER = "It is in Bern."
USAGE = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, "prompt_tokens": 1, "completion_tokens": 1}


class Model(ThreadingHTTPServer):
    """A model on loopback: it answers `ANSWER`, and keeps the requests."""

    daemon_threads = True

    def __init__(self) -> None:
        """Listen on a free port."""
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[dict[str, Any]] = []
        # A call of a tool in place of a text.
        self.calls_tool = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Model

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append(body)
        make = {"/v1/chat/completions": chat, "/v1/responses": response, "/v1/messages": message}
        whole, events = make[self.path.partition("?")[0]](calls_tool=self.server.calls_tool)
        if body.get("stream"):
            lines = [f"event: {event.get('type', 'x')}\ndata: {json.dumps(event)}\n\n" for event in events]
            data, kind = "".join([*lines, "data: [DONE]\n\n" if "chat" in self.path else ""]), "text/event-stream"
        else:
            data, kind = json.dumps(whole), "application/json"
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data.encode())

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def chat(*, calls_tool: bool) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    about: dict[str, Any] = {"id": "c", "created": 1, "model": "m"}
    call = {"id": "t", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    said: dict[str, Any] = {"role": "assistant", "content": ANSWER}
    if calls_tool:
        said = {"role": "assistant", "content": None, "tool_calls": [call]}
    whole = {**about, "object": "chat.completion", "usage": USAGE}
    whole["choices"] = [{"index": 0, "message": said, "finish_reason": "stop"}]
    deltas = [{"role": "assistant", "content": ""}, {"content": ANSWER[:5]}, {"content": ANSWER[5:]}]
    chunks = [
        {**about, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]} for delta in deltas
    ]
    chunks[-1]["choices"][0]["finish_reason"] = "stop"
    return whole, chunks


def response(*, calls_tool: bool) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    assert not calls_tool
    part = {"type": "output_text", "text": ANSWER, "annotations": []}
    item = {"type": "message", "id": "i", "role": "assistant", "status": "completed", "content": [part]}
    whole = {"id": "r", "object": "response", "created_at": 1, "model": "m", "status": "completed", "output": [item]}
    whole |= {"tools": [], "tool_choice": "auto", "parallel_tool_calls": False}
    place = {"item_id": "i", "output_index": 0, "content_index": 0, "logprobs": []}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**whole, "output": [], "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        {"type": "response.output_text.delta", **place, "delta": ANSWER},
        {"type": "response.output_text.done", **place, "text": ANSWER},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return whole, [{**event, "sequence_number": number} for number, event in enumerate(events)]


def message(*, calls_tool: bool) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    assert not calls_tool
    about = {"id": "m", "type": "message", "role": "assistant", "model": "m", "usage": USAGE}
    whole = {**about, "content": [{"type": "text", "text": ANSWER}], "stop_reason": "end_turn", "stop_sequence": None}
    return whole, [
        {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ANSWER}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": USAGE},
        {"type": "message_stop"},
    ]
