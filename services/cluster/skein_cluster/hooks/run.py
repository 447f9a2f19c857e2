"""`skein hooks run`: one event of a coding agent, from stdin to stdout.

An agent waits for it at every prompt, so the command imports neither click nor gRPC before it needs them.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from skein_client.environment import NotConfigured
from skein_cluster.hooks import memory
from skein_cluster.hooks.agents import AGENTS, CodingAgent, HookEvent, HookInputInvalid
from skein_cluster.hooks.failures import CallFailed
from skein_cluster.hooks.notices import Notices
from skein_cluster.hooks.project import project_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# For reading the input and calling the cluster.
DEADLINE_SECONDS = 5.0
_MAX_INPUT_BYTES = 16 << 20
# Options with a value, and the variable that each sets, if it sets one.
_VALUES: Mapping[str, str] = {
    "--agent": "",
    "--subject": "",
    "--data-dir": "SKEIN_DATA_DIR",
    "--endpoint": "SKEIN_ENDPOINT",
    "--http-endpoint": "SKEIN_HTTP_ENDPOINT",
    "--api-key-file": "SKEIN_API_KEY_FILE",
}
_FLAGS = ("--other-projects", "--keep-secrets")
OPTIONS = (*_VALUES, *_FLAGS)


class HookUsageError(Exception):
    """The command line is wrong; the message says how."""


class _Arguments(NamedTuple):
    agent: CodingAgent
    event: HookEvent
    options: Mapping[str, str]

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> _Arguments:
        """Read "NAME EVENT" and options. Raises HookUsageError."""
        names: list[str] = []
        options: dict[str, str] = {}
        rest = iter(arguments)
        for word in rest:
            option, has_value, value = word.partition("=")
            if not word.startswith("--"):
                names.append(word)
            elif word in _FLAGS:
                options[word] = word
            elif option not in _VALUES:
                message = f"no such option: {option}"
                raise HookUsageError(message)
            else:
                options[option] = value if has_value else next(rest, "")
        if len(names) != 2 or names[0] not in AGENTS or names[1] not in set(HookEvent):  # noqa: PLR2004 - NAME EVENT.
            raise HookUsageError("Skein knows no such agent or event; install the hooks again")
        return cls(AGENTS[names[0]], HookEvent(names[1]), options)


def with_options(options: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with what options say; a folder that is named goes before an address that is set."""
    named = {variable: options[option] for option, variable in _VALUES.items() if variable and option in options}
    result = {**environment, **named}
    if "--data-dir" in options and "--endpoint" not in options:
        result.pop("SKEIN_ENDPOINT", None)
        if "--http-endpoint" not in options:
            result.pop("SKEIN_HTTP_ENDPOINT", None)
    return result


def main(arguments: Sequence[str]) -> None:
    """Handle an event and print the output for the agent. A failure is a line on stderr, and never an exit code."""
    label, output, failure = " ".join(arguments[:2]), "{}", ""
    try:
        parsed = _Arguments.parse(arguments)
        # Whatever happens from here on, the agent goes on.
        output, failure = _handled(parsed, os.environ)
    except HookUsageError as error:
        failure = f"{error}."
    except Exception as error:  # noqa: BLE001 - a hook never breaks its agent.
        failure = f"{type(error).__name__}."
    if failure:
        _log(f"{label}: {failure}")
    # ASCII, whatever the encoding of the agent's pipe.
    print(output, flush=True)  # noqa: T201 - the command's output.
    # A call that never answers has a thread of its own, which nothing waits for.


def _handled(parsed: _Arguments, environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the output for the agent, and the failure in one line; empty without one."""
    agent, event = parsed.agent, parsed.event
    notices, session_id, context = Notices(agent.name, environment), "", ""
    failure: Exception | None = None
    has_answer = False
    try:
        deadline = time.monotonic() + DEADLINE_SECONDS
        call = agent.read_input(
            event, _read_fields(deadline), project_of, str if "--keep-secrets" in parsed.options else _redact
        )
        session_id = call.session_id
        participants = memory.Participants(
            agent_id=parsed.options.get("--agent", ""),
            subject_id=parsed.options.get("--subject", ""),
            with_other_projects="--other-projects" in parsed.options,
        )
        answer = memory.handle(agent, event, call, participants, with_options(parsed.options, environment), deadline)
        if answer is not None:
            context, failure, has_answer = answer.context, answer.error, answer.error is None
    except Exception as error:  # noqa: BLE001 - as above.
        failure = error
    if has_answer:
        notices.answered()
    reason = "" if failure is None else reason_of(failure)
    notice = ""
    is_news = bool(reason and session_id) and agent.shows_notice(event) and not notices.was_shown(session_id)
    # Without a place for the note, only the start of a session says it.
    if is_news and (notices.tell(session_id) or event is HookEvent.SESSION_START):
        notice = f"Skein's memory is not complete in this session: {reason}"
    return json.dumps(agent.output(event, context, notice)), reason


def _read_fields(deadline: float) -> dict[str, Any]:
    try:
        fields = json.loads(_read_input(deadline))
    except (ValueError, RecursionError):
        raise HookInputInvalid("it is not JSON") from None
    if not isinstance(fields, dict):
        raise HookInputInvalid("it is not an object")
    return fields


def _read_input(deadline: float) -> bytes:
    """Read stdin to its end. Raises TimeoutError when the agent does not close it, HookInputInvalid for a huge one."""
    parts: list[bytes] = []
    size = 0
    while size <= _MAX_INPUT_BYTES:
        readable, _, _ = select.select([sys.stdin], [], [], max(deadline - time.monotonic(), 0.0))
        if not readable:
            raise TimeoutError
        part = os.read(sys.stdin.fileno(), 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
    raise HookInputInvalid(f"it has more than {_MAX_INPUT_BYTES >> 20} MiB")


def _redact(text: str) -> str:
    """Return a text with "[github_token]" in place of a secret, as a tenant's policy writes it."""
    from skein_kit.content_guard.detectors import Category, find  # noqa: PLC0415 - most hooks have a text, a start has none.

    parts, end = [], 0
    for finding in find(text, {Category.SECRET}):
        parts += [text[end : finding.start], f"[{finding.kind}]"]
        end = finding.end
    return "".join([*parts, text[end:]])


def reason_of(error: Exception) -> str:
    """Return a failure in one line, without contents."""
    if isinstance(error, HookInputInvalid):
        return f"The input is not as documented: {error}."
    if isinstance(error, TimeoutError):
        return f"Nothing answered within {DEADLINE_SECONDS:.0f} seconds."
    if isinstance(error, (CallFailed, NotConfigured)):
        return " ".join(str(error).split())
    return f"{type(error).__name__}."


def _log(line: str) -> None:
    """Write a line to stderr, with control characters escaped."""
    text = "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in f"skein hooks: {line}")
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - the agent's log.
