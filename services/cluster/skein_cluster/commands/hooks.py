"""`skein hooks`: coding agents that read and write the tenant's memory by their hooks."""

from __future__ import annotations

import asyncio
import json
import os
import select
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from skein_client.connection import data_dir
from skein_cluster.cli import options, output
from skein_cluster.cli.command_lines import PROGRAM
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.hooks import memory, settings_file
from skein_cluster.hooks.agents import AGENTS, CodingAgent, HookEvent, HookInputInvalid, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Decorated = TypeVar("Decorated", bound="Callable[..., Any]")

# For reading the input and calling the cluster.
_DEADLINE_SECONDS = 5.0
# After which the agent ends the hook: the deadline, and a slow start of the process.
_TIMEOUT_SECONDS = 15
_MAX_INPUT_BYTES = 16 << 20


class HookCommand(click.Command):
    """A command that ends with 0 even if its arguments are wrong: agents take 2 as an order to stop."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; end the command after a line on stderr when they are wrong."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            _log(error.format_message())
            click.echo("{}")
            ctx.exit(ExitCode.OK)


def _agent_argument(command: Decorated) -> Decorated:
    """Add the argument NAME; the command gets the CodingAgent as `agent`."""

    def find(_context: click.Context, _parameter: click.Parameter, name: str) -> CodingAgent:
        return AGENTS[name]

    return click.argument("agent", metavar="NAME", type=click.Choice(list(AGENTS)), callback=find)(command)


def _scope_option(command: Decorated) -> Decorated:
    """Add --scope; the command gets a Scope as `scope`."""
    return click.option(
        "--scope",
        type=click.Choice([scope.value for scope in Scope]),
        default=Scope.USER.value,
        show_default=True,
        callback=lambda _context, _parameter, value: Scope(value),
        help="Your settings file, or that of the project in this folder.",
    )(command)


def _participant_options(command: Decorated) -> Decorated:
    """Add --agent and --subject."""
    decorated = cast("Any", command)
    for option in (
        click.option("--subject", "subject_id", default="", help="Subject: the person who works with the agent."),
        click.option("--agent", "agent_id", default="", help="Agent of the tenant, whose blocks and memories it sees."),
    ):
        decorated = option(decorated)
    return cast("Decorated", decorated)


@click.group()
def hooks_command() -> None:
    """Give a coding agent the tenant's memory by its hooks.

    NAME is claude-code, codex, cursor or gemini-cli. A session starts with a context of the project, a prompt comes
    with what is known about it, and what you and the agent say is remembered.
    """


@hooks_command.command("install")
@_agent_argument
@_scope_option
@_participant_options
@options.cluster_options
def install(agent: CodingAgent, scope: Scope, agent_id: str, subject_id: str, environment: dict[str, str]) -> None:
    """Add the hooks to the settings file of NAME, or bring them up to date.

    The file gets no key: the hooks find the cluster as other commands do, in the environment of the agent.
    """
    path = _writable_path(agent, scope)
    document, indent = settings_file.read(path)
    words = ["hooks", "run", agent.name]
    choices = [*(["--agent", agent_id] if agent_id else []), *(["--subject", subject_id] if subject_id else [])]
    folder = environment["SKEIN_DATA_DIR"]
    if Path(folder).expanduser() != data_dir(os.environ):
        choices += ["--data-dir", str(Path(folder).expanduser().absolute())]
    handlers = {
        event: agent.handler(f"{_program(scope)} {shlex.join([*words, event.value, *choices])}", _TIMEOUT_SECONDS)
        for event in HookEvent
    }
    changed = settings_file.with_hooks(document, agent, handlers)
    if changed == document:
        output.echo(f"{path} has the hooks of {agent.title} already.")
        return
    settings_file.write(path, changed, indent)
    output.echo(f"{path} has the hooks of {agent.title}. Sessions that start from now on use them.")


@hooks_command.command("remove")
@_agent_argument
@_scope_option
def remove(agent: CodingAgent, scope: Scope) -> None:
    """Remove the hooks of Skein from the settings file of NAME, and nothing else."""
    path = _writable_path(agent, scope)
    document, indent = settings_file.read(path)
    changed = settings_file.without_hooks(document, agent)
    if changed == document:
        output.echo(f"{path} has no hooks of Skein.")
        return
    settings_file.write_rest(path, changed, indent, agent)
    output.echo(f"{path} has no hooks of Skein any more.")


@hooks_command.command("list")
@options.json_option
def list_(*, as_json: bool) -> None:
    """List the hooks of Skein in your settings files and in those of the project in this folder.

    A line on stderr names a file that cannot be read.
    """
    found = []
    for agent in AGENTS.values():
        for scope in Scope:
            path = _settings_path(agent, scope)
            try:
                document, _ = settings_file.read(path)
            except settings_file.SettingsUnreadable as error:
                output.echo(error.message, err=True)
                continue
            for event, command in settings_file.installed(document, agent).items():
                found.append((agent.name, scope.value, event.value, str(path), command))
    if as_json:
        names = ("agent", "scope", "event", "file", "command")
        output.print_json({"hooks": [dict(zip(names, line, strict=True)) for line in found]})
        return
    table = output.table("agent", "scope", "event", "file", "command")
    output.print_table(table, found, empty="No coding agent has hooks of Skein.")


@hooks_command.command("run", cls=HookCommand)
@click.argument("name", metavar="NAME")
@click.argument("event", metavar="EVENT")
@_participant_options
@options.cluster_options
def run(name: str, event: str, agent_id: str, subject_id: str, environment: dict[str, str]) -> None:
    """Handle an event of a coding agent, which calls this with JSON on stdin.

    EVENT is session-start, prompt or stop. The command takes a few seconds at most, and ends with 0 whatever happens.
    After a failure the agent goes on without the memory, and a line on stderr says why.
    """
    participants = memory.Participants(agent_id=agent_id, subject_id=subject_id)
    answer: dict[str, Any] = {}
    failure: Exception | None
    try:
        agent, hook_event = _agent_and_event(name, event)
        answer = agent.output(hook_event, "")
        handled = _handle(agent, hook_event, participants, environment)
        answer = agent.output(hook_event, handled.context)
        failure = handled.error
    except Exception as error:  # noqa: BLE001 - a hook never breaks its agent.
        failure = error
    if failure is not None:
        _log(f"{name} {event}: {_reason(failure)}")
    # ASCII, whatever the encoding of the agent's pipe.
    click.echo(json.dumps(answer))


def _agent_and_event(name: str, event: str) -> tuple[CodingAgent, HookEvent]:
    if name not in AGENTS or event not in set(HookEvent):
        raise CommandError("Skein knows no such agent or event; install the hooks again.", ExitCode.USAGE)
    return AGENTS[name], HookEvent(event)


def _handle(
    agent: CodingAgent, event: HookEvent, participants: memory.Participants, environment: Mapping[str, str]
) -> memory.HookAnswer:
    deadline = time.monotonic() + _DEADLINE_SECONDS
    try:
        fields = json.loads(_read_input(deadline))
    except ValueError:
        raise HookInputInvalid("it is not JSON") from None
    if not isinstance(fields, dict):
        raise HookInputInvalid("it is not an object")
    call = agent.read_input(event, fields)
    remaining = max(deadline - time.monotonic(), 0.0)
    return asyncio.run(memory.handle(agent, event, call, participants, environment, remaining))


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


def _reason(error: Exception) -> str:
    """Return a failure in one line, without contents."""
    if isinstance(error, HookInputInvalid):
        return f"The input is not as documented: {error}."
    if isinstance(error, TimeoutError):
        return f"Nothing answered within {_DEADLINE_SECONDS:.0f} seconds."
    from skein_cluster.cli.error_messages import command_error  # noqa: PLC0415 - half a second of imports; only failures pay.

    failure = command_error(error)
    return f"{type(error).__name__}." if failure is None else failure.message


def _log(line: str) -> None:
    output.echo(f"skein hooks: {' '.join(line.split())}", err=True)


def _settings_path(agent: CodingAgent, scope: Scope) -> Path:
    try:
        home = Path.home()
    except RuntimeError:
        raise CommandError("There is no home folder: set HOME, or use --scope project.", ExitCode.REFUSED) from None
    return agent.settings_path(scope, home, Path.cwd(), os.environ)


def _writable_path(agent: CodingAgent, scope: Scope) -> Path:
    """Return the settings file to change. Raises SettingsUnreadable where a project's leads out of the project.

    Whoever wrote the project may have made it a link to a file of the person.
    """
    path = _settings_path(agent, scope)
    if scope is Scope.PROJECT and not path.resolve().is_relative_to(Path.cwd().resolve()):
        raise settings_file.SettingsUnreadable(path, "it is a link that leads out of the project")
    return path


def _program(scope: Scope) -> str:
    """Return the command's name for the agent's shell: a path for one person, whose agent may have another PATH."""
    if scope is Scope.PROJECT:
        return PROGRAM
    script_path = Path(sys.argv[0])
    path = str(script_path.absolute()) if script_path.name == PROGRAM and script_path.exists() else None
    return shlex.quote(path or shutil.which(PROGRAM) or PROGRAM)
