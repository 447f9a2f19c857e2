"""`skein hooks`: coding agents that read and write the tenant's memory by their hooks."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from skein_client import environment
from skein_client.environment import NotConfigured
from skein_cluster.cli import options, output
from skein_cluster.cli.command_lines import PROGRAM
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.hooks import run as hook
from skein_cluster.hooks import settings_file
from skein_cluster.hooks.agents import AGENTS, CodingAgent, HookEvent, Scope
from skein_cluster.hooks.calls import Cluster
from skein_cluster.hooks.failures import AUTH, CallFailed

Decorated = TypeVar("Decorated", bound="Callable[..., Any]")

# After which the agent ends the hook: the deadline, and a slow start of the process.
_TIMEOUT_SECONDS = 15


class HookCommand(click.Command):
    """The command that `__main__` runs without click; click knows its options for the help alone."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Show the help, or handle the event."""
        if not {"-h", "--help"}.intersection(args):
            hook.main(args)
            ctx.exit(ExitCode.OK)
        return super().parse_args(ctx, args)


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
    """Add the options on whose memory it is, and what becomes of it."""
    decorated = cast("Any", command)
    for option in (
        click.option("--keep-secrets", is_flag=True, help="Remember keys, tokens and passwords as they were written."),
        click.option(
            "--other-projects", is_flag=True, help="With a prompt, show what other projects know, with their names."
        ),
        click.option("--subject", "subject_id", default="", help="Subject: the person who works with the agent."),
        click.option("--agent", "agent_id", default="", help="Agent of the tenant, whose blocks and memories it sees."),
    ):
        decorated = option(decorated)
    return cast("Decorated", decorated)


def _cluster_options(command: Decorated) -> Decorated:
    """Add the options on where the cluster is."""
    decorated = cast("Any", command)
    for option in (
        click.option("--api-key-file", help="File with the key, else SKEIN_API_KEY_FILE."),
        click.option("--http-endpoint", help="HTTP address of the cluster, else SKEIN_HTTP_ENDPOINT."),
        click.option("--endpoint", help="Address of the cluster, else SKEIN_ENDPOINT."),
        click.option("--data-dir", help="Data folder with the credentials.json of the cluster, else SKEIN_DATA_DIR."),
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
@_cluster_options
def install(  # noqa: PLR0913 - the options of the command.
    agent: CodingAgent,
    scope: Scope,
    agent_id: str,
    subject_id: str,
    *,
    other_projects: bool,
    keep_secrets: bool,
    data_dir: str | None,
    endpoint: str | None,
    http_endpoint: str | None,
    api_key_file: str | None,
) -> None:
    """Add the hooks to the settings file of NAME, or bring them up to date, and call the cluster once.

    The entries name the cluster: the address that is given or set, else the data folder. Those of a project name no
    folder of yours. The file gets no key: the hooks find it in the environment of the agent, in a file, or in the
    credentials.json of the data folder.
    """
    path = _writable_path(agent, scope)
    document, indent = settings_file.read(path)
    place = _place(scope, data_dir, endpoint, http_endpoint, api_key_file)
    choices = [
        *(["--agent", agent_id] if agent_id else []),
        *(["--subject", subject_id] if subject_id else []),
        *(["--other-projects"] if other_projects else []),
        *(["--keep-secrets"] if keep_secrets else []),
        *(word for pair in place.items() for word in pair),
    ]
    handlers = {
        event: agent.handler(
            f"{_program(scope)} {shlex.join(['hooks', 'run', agent.name, event.value, *choices])}", _TIMEOUT_SECONDS
        )
        for event in HookEvent
    }
    changed = settings_file.with_hooks(document, agent, handlers)
    if changed == document:
        output.echo(f"{path} has the hooks of {agent.title} already.")
    else:
        settings_file.write(path, changed, indent)
        output.echo(f"{path} has the hooks of {agent.title}. Sessions that start from now on use them.")
    _report_connection(hook.with_options(place, os.environ), place)


def _place(
    scope: Scope, data_dir: str | None, endpoint: str | None, http_endpoint: str | None, api_key_file: str | None
) -> dict[str, str]:
    """Return the options of the hooks that say where the cluster is, with absolute paths."""
    if endpoint is None and data_dir is None:
        endpoint = os.environ.get("SKEIN_ENDPOINT") or None
    if endpoint is not None:
        http_endpoint = http_endpoint or os.environ.get("SKEIN_HTTP_ENDPOINT")
        api_key_file = api_key_file or os.environ.get("SKEIN_API_KEY_FILE")
    folder = environment.data_dir({**os.environ, **({"SKEIN_DATA_DIR": data_dir} if data_dir else {})})
    # Other members of the project have folders of their own.
    is_named = data_dir is not None or scope is Scope.USER
    values = {
        "--data-dir": str(folder.absolute()) if is_named and (endpoint is None or data_dir is not None) else None,
        "--endpoint": endpoint,
        "--http-endpoint": http_endpoint,
        "--api-key-file": str(Path(api_key_file).expanduser().absolute()) if api_key_file else None,
    }
    return {option: value for option, value in values.items() if value}


def _report_connection(values: Mapping[str, str], place: Mapping[str, str]) -> None:
    """Call the cluster as the hooks will, and say what came of it."""
    try:
        cluster = Cluster.from_environment(values)
        cluster.call(AUTH, "GetMe", {}, time.monotonic() + hook.DEADLINE_SECONDS)
    except (CallFailed, NotConfigured, TimeoutError) as error:
        output.echo(f"The hooks do not reach Skein yet: {hook.reason_of(error)}", err=True)
        return
    output.echo(f"Skein answers at {cluster.address}.")
    if not cluster.access.http_endpoint:
        hint = "Each hook takes half a second less with --http-endpoint, the HTTP address of the cluster."
        output.echo(hint, err=True)
    if "SKEIN_API_KEY" in values and "--data-dir" not in place:
        output.echo("The agent needs SKEIN_API_KEY in its environment, or install with --api-key-file.", err=True)


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
@_cluster_options
def run(**_: object) -> None:
    """Handle an event of a coding agent, which calls this with JSON on stdin.

    EVENT is session-start, prompt or stop. The command takes a few seconds at most, and ends with 0 whatever happens.
    After a failure the agent goes on without the memory. A line on stderr says why, and once in a session the agent
    shows it.
    """


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
