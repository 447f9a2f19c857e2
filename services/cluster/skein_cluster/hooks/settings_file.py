"""The settings file of a coding agent: our entries in it, and nothing else of it, are added and removed."""

from __future__ import annotations

import copy
import json
import os
import re
import shlex
import tempfile
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.hooks.agents import HookEvent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from skein_cluster.hooks.agents import CodingAgent

_PROGRAM = "skein"
_DEFAULT_INDENT = "  "
_NEW_FILE_MODE = 0o600


class SettingsUnreadable(CommandError):
    """The settings file cannot be edited without the risk of losing something."""

    def __init__(self, path: Path, reason: str) -> None:
        """Name the file and the reason."""
        super().__init__(f"{path} is left alone: {reason}.", ExitCode.REFUSED)


def command_event(command: object, agent: CodingAgent) -> HookEvent | None:
    """Return the event that a command of ours handles for an agent; None for any other command."""
    if not isinstance(command, str):
        return None
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    match words:
        case [program, "hooks", "run", agent.name, event, *_] if PurePath(program).name == _PROGRAM:
            return HookEvent(event) if event in set(HookEvent) else None
    return None


def installed(document: Mapping[str, Any], agent: CodingAgent) -> dict[HookEvent, str]:
    """Return our commands in a settings document, by event."""
    found: dict[HookEvent, str] = {}
    for native in _our_event_names(document, agent):
        for handlers in _handler_lists(document["hooks"][native], agent):
            for handler in handlers:
                command = _command(handler)
                event = command_event(command, agent)
                if event is not None and agent.events[event] == native:
                    found.setdefault(event, str(command))
    return found


def with_hooks(
    document: Mapping[str, Any], agent: CodingAgent, handlers: Mapping[HookEvent, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return a settings document with our handler of each event once; a handler of ours keeps its place."""
    result = copy.deepcopy(dict(document))
    for name, value in agent.file_header.items():
        result.setdefault(name, value)
    hooks = result.setdefault("hooks", {})
    for event, handler in handlers.items():
        entries = hooks.setdefault(agent.events[event], [])
        is_placed = False
        for handler_list in _handler_lists(entries, agent):
            ours = [place for place, one in enumerate(handler_list) if command_event(_command(one), agent) is not None]
            for place in reversed(ours):
                if is_placed or place != ours[0]:
                    del handler_list[place]
            if ours and not is_placed:
                handler_list[ours[0]] = dict(handler)
                is_placed = True
        if not is_placed:
            entries.append({"hooks": [dict(handler)]} if agent.has_groups else dict(handler))
        if agent.has_groups:
            hooks[agent.events[event]] = [group for group in entries if not _is_emptied(group)]
    return result


def without_hooks(document: Mapping[str, Any], agent: CodingAgent) -> dict[str, Any]:
    """Return a settings document without our handlers, and without what held nothing but them."""
    result = copy.deepcopy(dict(document))
    for native in _our_event_names(document, agent):
        entries = result["hooks"][native]
        for handler_list in _handler_lists(entries, agent):
            handler_list[:] = [one for one in handler_list if command_event(_command(one), agent) is None]
        kept = [group for group in entries if not (agent.has_groups and _is_emptied(group))]
        if kept:
            result["hooks"][native] = kept
        else:
            del result["hooks"][native]
        if not result["hooks"]:
            del result["hooks"]
    return result


def read(path: Path) -> tuple[dict[str, Any], str]:
    """Return a settings document and its indentation; an empty one for a missing file. Raises SettingsUnreadable."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return {}, _DEFAULT_INDENT
    except (OSError, UnicodeDecodeError):
        raise SettingsUnreadable(path, "it cannot be read as UTF-8 text") from None
    if not text.strip():
        # A settings file is never empty: this may be another file, or the target of a link.
        raise SettingsUnreadable(path, "it is empty, which no settings file is; delete it first")
    try:
        document = json.loads(text, object_pairs_hook=_without_duplicates)
    except ValueError:
        reason = "it is not plain JSON (comments and repeated names would be lost); add the entries by hand"
        raise SettingsUnreadable(path, reason) from None
    _check_shape(path, document)
    indent = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
    return document, indent[1] if indent else _DEFAULT_INDENT


def write(path: Path, document: Mapping[str, Any], indent: str) -> None:
    """Replace a settings file at once, through links and with its permissions. Raises SettingsUnreadable."""
    text = json.dumps(document, indent=indent, ensure_ascii=False) + "\n"
    target = path.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o7777 if target.exists() else _NEW_FILE_MODE
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        part = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            part.chmod(mode)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise SettingsUnreadable(path, f"it cannot be written ({error.strerror})") from None


def write_rest(path: Path, document: Mapping[str, Any], indent: str, agent: CodingAgent) -> None:
    """Write what a settings file had beside our hooks, or delete a file without anything else."""
    has_more = any(name not in agent.file_header for name in document)
    if not has_more and not path.is_symlink():
        path.unlink(missing_ok=True)
    else:
        write(path, document, indent)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        message = "a name is repeated"
        raise ValueError(message)
    return result


def _check_shape(path: Path, document: object) -> None:
    """Refuse a document in which our entries have no place."""
    hooks = document.get("hooks", {}) if isinstance(document, dict) else None
    if not isinstance(hooks, dict) or not all(isinstance(entries, list) for entries in hooks.values()):
        raise SettingsUnreadable(path, 'its "hooks" are not an object of lists')


def _our_event_names(document: Mapping[str, Any], agent: CodingAgent) -> list[str]:
    """Return the agent's names of events under which a handler of ours is."""
    return [
        name
        for name, entries in document.get("hooks", {}).items()
        if any(
            command_event(_command(one), agent) is not None
            for handlers in _handler_lists(entries, agent)
            for one in handlers
        )
    ]


def _handler_lists(entries: list[Any], agent: CodingAgent) -> Iterator[list[Any]]:
    """Yield the lists of handlers of one event, which can be changed in place."""
    if not agent.has_groups:
        yield entries
        return
    for group in entries:
        handlers = group.get("hooks") if isinstance(group, dict) else None
        if isinstance(handlers, list):
            yield handlers


def _command(handler: object) -> object:
    return handler.get("command") if isinstance(handler, dict) else None


def _is_emptied(group: object) -> bool:
    return isinstance(group, dict) and group.get("hooks") == []
