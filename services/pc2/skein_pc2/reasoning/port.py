"""Port 5596 answers each message in one of three dialects."""

from __future__ import annotations

from skein_pc2.gateway_api.client import GatewayApi
from skein_pc2.protocol.concurrency import ConcurrencyLimit
from skein_pc2.protocol.dialect import is_health_request, is_typed_health_request, typed_health_reply
from skein_pc2.protocol.frames import Frames, MalformedMessage, Message, timestamp
from skein_pc2.reasoning.actions import coordination
from skein_pc2.reasoning.actions.background_updates import BackgroundUpdates
from skein_pc2.reasoning.actions.digital_twins import DigitalTwins
from skein_pc2.reasoning.actions.error_patterns import ErrorPatterns
from skein_pc2.reasoning.actions.health import ReasoningHealth
from skein_pc2.reasoning.actions.interactions import Interactions
from skein_pc2.reasoning.actions.memories import MemoryActions
from skein_pc2.reasoning.actions.personal_data import PersonalDataActions
from skein_pc2.reasoning.commands import commands
from skein_pc2.reasoning.jarvis import jarvis
from skein_pc2.reasoning.records import agent_request, record_values
from skein_pc2.reasoning.records.agent_request import Action
from skein_pc2.reasoning.records.memory_store import MemoryStore

_ADD_MEMORY = "add_memory"
_HEALTH_CHECK = "HEALTH_CHECK"


class ReasoningPort:
    """Answers §1, §2 and §3 of the protocol, and the interpreter's actions."""

    def __init__(
        self, api: GatewayApi, health: ReasoningHealth, background: BackgroundUpdates, *, max_concurrency: int
    ) -> None:
        """Run up to `max_concurrency` actions at the same time; others wait. Health is answered at once."""
        self._health = health
        self._runner = agent_request.RequestRunner(api, ConcurrencyLimit(max_concurrency))
        store = MemoryStore(api)
        twins = DigitalTwins(api)
        personal = PersonalDataActions(api, twins)
        self._jarvis = jarvis.Memories(api).actions
        self._commands = commands.Commands(api, store).actions
        self._coordinate: Action = coordination.Coordination(store).coordinate
        self._actions: dict[str, Action] = {
            **self._jarvis,
            **Interactions(api, health, personal).actions,
            **ErrorPatterns(api).actions,
            **twins.actions,
            **personal.actions,
            # This add_memory has `content`; Jarvis' has `memory`.
            **MemoryActions(api, store, background).actions,
        }

    async def answer(self, frames: Frames, *, deadline: float) -> Message:
        try:
            message = frames.parse()
        except MalformedMessage as error:
            reply = _malformed_error(frames, str(error))
        else:
            reply = await self._answer(message, deadline)
        self._health.count_request(is_error=str(reply["status"]).lower() == "error")
        return reply

    def error_reply(self, code: str, text: str) -> Message:
        return agent_request.lower_case_error(text)

    async def _answer(self, message: Message, deadline: float) -> Message:
        if is_health_request(message):
            return await self._health.current_document()
        if message.get("action") is not None:
            return await self._answer_action(message, deadline)
        if "command" in message:
            return await self._answer_command(message, deadline)
        if is_typed_health_request(message):
            return typed_health_reply(await self._health.current_document())
        if coordination.KEY in message:
            return await self._runner.answer(
                message, self._coordinate, _coordination_error, name=coordination.KEY, deadline=deadline
            )
        return agent_request.lower_case_error(agent_request.UNKNOWN_ACTION)

    async def _answer_action(self, message: Message, deadline: float) -> Message:
        name = agent_request.action_name(message)
        is_jarvis_action = name == _ADD_MEMORY and "memory" in message
        action = self._jarvis[name] if is_jarvis_action else self._actions.get(name)
        if action is None:
            return agent_request.lower_case_error(agent_request.UNKNOWN_ACTION)
        return await self._runner.answer(message, action, agent_request.lower_case_error, name=name, deadline=deadline)

    async def _answer_command(self, message: Message, deadline: float) -> Message:
        name = message["command"]
        if name == _HEALTH_CHECK:
            return await self._health_reply()
        action = self._commands.get(name) if isinstance(name, str) else None
        if action is None:
            return commands.upper_case_error(f"Unknown command: {record_values.truncate_name(name)}")
        return await self._runner.answer(message, action, commands.upper_case_error, name=str(name), deadline=deadline)

    async def _health_reply(self) -> Message:
        health = await self._health.current_document()
        return {
            "status": "success",
            "agent": self._health.agent,
            "timestamp": timestamp(),
            "uptime_seconds": self._health.uptime(),
            "health": health,
            "metrics": self._health.metrics(),
            "version": "1.0",
        }


def _coordination_error(text: str) -> Message:
    return {**agent_request.lower_case_error(text), "result": agent_request.lower_case_error(text)}


def _malformed_error(frames: Frames, text: str) -> Message:
    """Return the error for an unreadable message: in §2's form when its key occurs in the bytes."""
    body = b"".join(frames.body)
    if b'"command"' in body and b'"action"' not in body:
        return commands.upper_case_error(text)
    return agent_request.lower_case_error(text)
