"""Coding agents with documented hooks: settings files, names of events, input and output. No I/O.

Sources of the formats:
- Claude Code: code.claude.com/docs/en/hooks
- Codex: developers.openai.com/codex/hooks, and the schemas in codex-rs/hooks of openai/codex
- Cursor: cursor.com/docs/agent/hooks
- Gemini CLI: docs/hooks/reference.md of google-gemini/gemini-cli
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Default limit of a message's content, in characters.
_MAX_CONTENT = 100_000
# A secret that begins before the limit ends before this many characters more.
_MAX_SECRET = 10_000
_MAX_ID = 255


class HookEvent(StrEnum):
    """What happened in the coding agent."""

    SESSION_START = "session-start"
    PROMPT = "prompt"
    STOP = "stop"


class Scope(StrEnum):
    """Whose settings file has the hooks."""

    USER = "user"
    PROJECT = "project"


class HookInputInvalid(ValueError):
    """The input of a hook is not what the agent's documentation describes; the message names the field."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """What one person or agent said; `external_id` is equal whenever the agent reports it again."""

    role: str
    content: str
    external_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class HookCall:
    """What an agent reported of an event."""

    # Id of the session in Skein.
    session_id: str
    # The project (project.project_of) of the folder in which the agent works; empty when the agent does not say.
    project: str
    # What the person wrote; empty except for a prompt.
    prompt: str
    # What is to be remembered now, in order.
    turns: tuple[Turn, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CodingAgent:
    """The hooks of one coding agent."""

    name: str
    title: str
    # The folder of its settings, in the home folder and in a project.
    folder: str
    # The setting that moves the folder of the user; empty without one.
    folder_setting: str = ""
    file: str
    # Its names of the events.
    events: Mapping[HookEvent, str]
    # Fields of its input.
    session_field: str = "session_id"
    # Identifies a turn of the session; empty if the agent names none.
    turn_field: str
    response_field: str
    # Whether the input of STOP has the prompt too; otherwise PROMPT remembers it.
    has_prompt_at_stop: bool = False
    # Whether it takes a text as context at PROMPT.
    takes_context_at_prompt: bool = True
    # Whether an event has groups of handlers with a matcher each, and its output is in "hookSpecificOutput".
    has_groups: bool = True
    # What its settings file must have beside the hooks.
    file_header: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    # Units of a second in its timeouts.
    timeout_units: int = 1

    def settings_path(self, scope: Scope, home: Path, project: Path, environment: Mapping[str, str]) -> Path:
        """Return the settings file of the person, or of the project in a folder."""
        if scope is Scope.PROJECT:
            return project / self.folder / self.file
        moved = environment.get(self.folder_setting) if self.folder_setting else None
        return (Path(moved).expanduser() if moved else home / self.folder) / self.file

    def handler(self, command: str, timeout_seconds: int) -> dict[str, Any]:
        """Return the entry of a settings file that runs a command."""
        timeout = timeout_seconds * self.timeout_units
        return {**({"type": "command"} if self.has_groups else {}), "command": command, "timeout": timeout}

    def read_input(
        self,
        event: HookEvent,
        fields: Mapping[str, Any],
        project_of: Callable[[str], str] = str,
        redact: Callable[[str], str] = str,
    ) -> HookCall:
        """Return what an input says, its texts as `redact` returns them. Raises HookInputInvalid.

        What a subagent says belongs to no person's conversation, so nothing of it is remembered.
        """

        def spoken_text(name: str) -> str:
            text = _text(fields, name)
            return redact(text[: _MAX_CONTENT + _MAX_SECRET])[:_MAX_CONTENT] if text.strip() else ""

        session_id = _text(fields, self.session_field) or _text(fields, "session_id")
        if not session_id:
            raise HookInputInvalid(f"it has no {self.session_field}")
        prompt = spoken_text("prompt") if event is HookEvent.PROMPT else ""
        spoken: list[tuple[str, str]] = []
        if event is HookEvent.PROMPT and not self.has_prompt_at_stop:
            spoken = [("user", prompt)]
        elif event is HookEvent.STOP:
            spoken = [("assistant", spoken_text(self.response_field))]
            # A stop after a hook made the agent continue repeats the prompt.
            if self.has_prompt_at_stop and fields.get("stop_hook_active") is not True:
                spoken.insert(0, ("user", spoken_text("prompt")))
        if self.has_groups and fields.get("agent_id"):
            spoken = []
        turn_id = _text(fields, self.turn_field)
        turns = tuple(
            Turn(
                role=role,
                content=content,
                external_id=f"{self.name}:{_digest(session_id, turn_id, role, content)}",
            )
            for role, content in spoken
            if content.strip()
        )
        return HookCall(
            session_id=self._session_id(session_id),
            project=project_of(_folder(fields)),
            prompt=prompt.strip(),
            turns=turns,
        )

    def shows_notice(self, event: HookEvent) -> bool:
        """Return whether a notice at an event reaches the person."""
        return self.has_groups or event is HookEvent.SESSION_START

    def output(self, event: HookEvent, context: str, notice: str = "") -> dict[str, Any]:
        """Return the output that adds a text to the agent's context, or that of a hook without effect.

        `notice` is for the person. An agent that shows none gets it in the context of a session's start.
        """
        if event is HookEvent.PROMPT and not self.takes_context_at_prompt:
            return {"continue": True}
        if not self.has_groups:
            texts = [*([f"Tell the person: {notice}"] if notice else []), *([context] if context else [])]
            return {"additional_context": "\n\n".join(texts)} if texts and event is not HookEvent.STOP else {}
        result: dict[str, Any] = {"systemMessage": notice} if notice else {}
        if context and event is not HookEvent.STOP:
            result["hookSpecificOutput"] = {"hookEventName": self.events[event], "additionalContext": context}
        return result

    def _session_id(self, session_id: str) -> str:
        whole = f"{self.name}:{session_id}"
        return whole if len(whole) <= _MAX_ID else f"{self.name}:{_digest(session_id)}"


def _text(fields: Mapping[str, Any], name: str) -> str:
    """Return a text without what no message can hold: halves of characters, and NUL."""
    value = fields.get(name)
    return value.encode("utf-8", "replace").decode().replace("\0", "") if isinstance(value, str) else ""


def _folder(fields: Mapping[str, Any]) -> str:
    roots = fields.get("workspace_roots")
    first = roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], str) else ""
    return _text(fields, "cwd") or _text({"root": first}, "root")


def _digest(*texts: str) -> str:
    whole = hashlib.sha256()
    for text in texts:
        content = text.encode()
        whole.update(len(content).to_bytes(8, "big") + content)
    return whole.hexdigest()[:40]


_CLAUDE_EVENTS: Mapping[HookEvent, str] = {
    HookEvent.SESSION_START: "SessionStart",
    HookEvent.PROMPT: "UserPromptSubmit",
    HookEvent.STOP: "Stop",
}

AGENTS: Mapping[str, CodingAgent] = {
    agent.name: agent
    for agent in (
        CodingAgent(
            name="claude-code",
            title="Claude Code",
            folder=".claude",
            folder_setting="CLAUDE_CONFIG_DIR",
            file="settings.json",
            events=_CLAUDE_EVENTS,
            turn_field="prompt_id",
            response_field="last_assistant_message",
        ),
        CodingAgent(
            name="codex",
            title="Codex",
            folder=".codex",
            folder_setting="CODEX_HOME",
            file="hooks.json",
            events=_CLAUDE_EVENTS,
            turn_field="turn_id",
            response_field="last_assistant_message",
        ),
        CodingAgent(
            name="cursor",
            title="Cursor",
            folder=".cursor",
            file="hooks.json",
            # Its own "stop" does not say what the agent answered.
            events={
                HookEvent.SESSION_START: "sessionStart",
                HookEvent.PROMPT: "beforeSubmitPrompt",
                HookEvent.STOP: "afterAgentResponse",
            },
            session_field="conversation_id",
            turn_field="generation_id",
            response_field="text",
            takes_context_at_prompt=False,
            has_groups=False,
            file_header=MappingProxyType({"version": 1}),
        ),
        CodingAgent(
            name="gemini-cli",
            title="Gemini CLI",
            folder=".gemini",
            file="settings.json",
            events={
                HookEvent.SESSION_START: "SessionStart",
                HookEvent.PROMPT: "BeforeAgent",
                HookEvent.STOP: "AfterAgent",
            },
            turn_field="timestamp",
            response_field="prompt_response",
            has_prompt_at_stop=True,
            timeout_units=1000,
        ),
    )
}
