"""Settings files of coding agents: our entries come and go, and everything else stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fix_catalogue import over

from skein_cluster.hooks import settings_file
from skein_cluster.hooks.agents import AGENTS, CodingAgent, HookEvent, Scope

OTHERS: dict[str, dict[str, Any]] = {
    "claude-code": {
        "model": "opus",
        "permissions": {"allow": ["Bash(git log:*)"]},
        "hooks": {
            "Stop": [{"hooks": [{"type": "command", "command": "afplay done.wav"}]}],
            "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "check.sh", "timeout": 5}]}],
        },
    },
    "codex": {"hooks": {"SessionStart": [{"matcher": "startup", "hooks": [{"type": "command", "command": "x"}]}]}},
    "cursor": {"version": 1, "hooks": {"beforeSubmitPrompt": [{"command": "./audit.sh"}], "stop": [{"command": "y"}]}},
    "gemini-cli": {"theme": "Größe", "hooks": {"AfterAgent": [{"matcher": "*", "hooks": [{"command": "z"}]}]}},
}


def handlers(agent: CodingAgent, program: str = "skein", options: str = "") -> dict[HookEvent, dict[str, Any]]:
    return {event: agent.handler(f"{program} hooks run {agent.name} {event.value}{options}", 15) for event in HookEvent}


@pytest.mark.parametrize("agent", AGENTS.values(), ids=list(AGENTS))
def test_what_is_added_is_removed_and_nothing_else(agent: CodingAgent) -> None:
    before = OTHERS[agent.name]

    added = settings_file.with_hooks(before, agent, handlers(agent))
    removed = settings_file.without_hooks(added, agent)

    assert removed == before
    assert set(settings_file.installed(added, agent)) == set(HookEvent)
    for name, entries in before["hooks"].items():
        assert added["hooks"][name][: len(entries)] == entries


@pytest.mark.parametrize("agent", AGENTS.values(), ids=list(AGENTS))
def test_adding_again_changes_nothing(agent: CodingAgent) -> None:
    once = settings_file.with_hooks(OTHERS[agent.name], agent, handlers(agent))

    assert settings_file.with_hooks(once, agent, handlers(agent)) == once


@pytest.mark.parametrize("agent", AGENTS.values(), ids=list(AGENTS))
def test_a_changed_command_takes_the_place_of_the_old_one(agent: CodingAgent) -> None:
    old = settings_file.with_hooks(OTHERS[agent.name], agent, handlers(agent))
    for native in agent.events.values():
        later = {"command": "later"}
        old["hooks"][native].append({"hooks": [later]} if agent.has_groups else later)

    new = settings_file.with_hooks(old, agent, handlers(agent, "'/opt/my tools/skein'", " --subject anna"))

    commands = settings_file.installed(new, agent)
    assert set(commands.values()) == {
        f"'/opt/my tools/skein' hooks run {agent.name} {event.value} --subject anna" for event in HookEvent
    }
    for native in agent.events.values():
        assert len(new["hooks"][native]) == len(old["hooks"][native])
        assert "later" in json.dumps(new["hooks"][native][-1])


@over(
    "command",
    [
        "skein hooks run other stop",
        "notskein hooks run claude-code stop",
        "echo 'skein hooks run claude-code",
        "",
        None,
    ],
)
def test_other_commands_are_not_ours(command: object) -> None:
    assert settings_file.command_event(command, AGENTS["claude-code"]) is None


def test_a_group_shared_with_others_keeps_their_handlers() -> None:
    agent = AGENTS["claude-code"]
    theirs = {"type": "command", "command": "lint"}
    ours = agent.handler("skein hooks run claude-code stop", 15)
    shared = {"hooks": {"Stop": [{"hooks": [theirs, ours]}]}}

    assert settings_file.without_hooks(shared, agent) == {"hooks": {"Stop": [{"hooks": [theirs]}]}}


def test_a_file_is_written_with_its_indentation_letters_and_permissions(tmp_path: Path) -> None:
    path, target = tmp_path / "settings.json", tmp_path / "dotfiles.json"
    target.write_text('{\n    "theme": "Größe"\n}\n', "utf-8")
    target.chmod(0o640)
    path.symlink_to(target)

    document, indent = settings_file.read(path)
    settings_file.write(path, {**document, "more": 1}, indent)

    assert path.is_symlink()
    assert target.read_text("utf-8") == '{\n    "theme": "Größe",\n    "more": 1\n}\n'
    assert target.stat().st_mode & 0o777 == 0o640
    assert sorted(one.name for one in tmp_path.iterdir()) == ["dotfiles.json", "settings.json"]


@pytest.mark.parametrize(
    "text",
    ["", " \n", '{"a": 1} // comment', '{"a": 1, "a": 2}', '{"hooks": []}', '{"hooks": {"Stop": {}}}', "[]", '{"a":'],
)
def test_a_file_that_would_lose_something_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text, "utf-8")

    with pytest.raises(settings_file.SettingsUnreadable, match="left alone"):
        settings_file.read(path)


def test_the_folder_of_a_person_can_be_elsewhere() -> None:
    home, project = Path("/home"), Path("/project")
    claude = AGENTS["claude-code"]

    assert claude.settings_path(Scope.USER, home, project, {}) == home / ".claude/settings.json"
    assert claude.settings_path(Scope.USER, home, project, {"CLAUDE_CONFIG_DIR": "/c"}) == Path("/c/settings.json")
    assert claude.settings_path(Scope.PROJECT, home, project, {}) == project / ".claude/settings.json"
    assert AGENTS["codex"].settings_path(Scope.USER, home, project, {"CODEX_HOME": "/x"}) == Path("/x/hooks.json")
