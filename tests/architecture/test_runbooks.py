"""Runbooks name what exists: commands, settings, metrics, events, pages; and each says the same four things."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import click
import fix_settings
import yaml
from fix_catalogue import over
from fix_watching import ALERTS, METRIC, ROOT, RULES, RUNBOOK_FOLDER, blocks, prose, runbooks
from prometheus_client import REGISTRY

from skein.errors.v1 import errors_pb2
from skein_cluster import registry
from skein_cluster.main import skein
from skein_kit.identity.permissions import ACCESS_RULES as ACCESS

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
PAGES = runbooks()
# Without what is to be typed.
PROSE = {name: prose(text) for name, text in PAGES.items()}
# Pages of alerts; the others are about something that is done, or about all of them.
OF_ALERTS = {name: text for name, text in PAGES.items() if "Skein" in text.splitlines()[0]}
# Stands for the name of any service.
SERVICE = "SERVICE"
# Verbs of `docker compose` that are followed by options and by names of services.
OF_SERVICES = ("ps", "logs", "up", "stop", "restart", "exec", "run")
# Names in capitals that are no reasons: status codes, and what Skein and Postgres call their own.
NO_REASONS = {"DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "DATA_LOSS", "LEXICAL_ONLY"}


@over("name", OF_ALERTS)
def test_a_page_says_what_it_means_how_to_look_what_to_do_and_when_it_can_wait(name: str) -> None:
    text = OF_ALERTS[name]
    headings = re.findall(r"^#+ (.+)$", prose(text), re.MULTILINE)
    meaning = text.partition("\n\n")[2].partition("\n## ")[0]

    assert headings[1:] == ["Look", "Do", "It can wait"]
    assert len(meaning.split()) > 15
    assert blocks(text, "promql")


def test_every_page_of_an_alert_is_one_that_an_alert_names() -> None:
    led_to = {alert["annotations"]["runbook"].rpartition("/")[2] for alert in ALERTS.values()}
    headed = {alert for text in OF_ALERTS.values() for alert in re.findall(r"Skein\w+", text.splitlines()[0])}

    assert led_to == set(OF_ALERTS)
    assert headed == set(ALERTS)


def test_alerts_that_are_named_exist() -> None:
    for name, alert in named(r"(?<=[`\[])Skein[A-Z]\w+(?=[`\]])"):
        assert alert in ALERTS, name


def test_links_lead_somewhere() -> None:
    for name, target in named(r"\]\(([^)#:]+)\)"):
        assert (RUNBOOK_FOLDER / target).is_file(), f"{name}: {target}"


def test_commands_of_skein_exist_with_their_options() -> None:
    results = [(name, line) for name, line in commands() if line.startswith("skein ")]

    assert len(results) > 10
    for name, line in results:
        assert understood(shlex.split(line.partition(" | ")[0])[1:]), f"{name}: {line}"


def test_containers_that_commands_name_exist() -> None:
    results = [(name, line) for name, line in commands() if line.startswith("docker compose ")]

    assert len(results) > 10
    for name, line in results:
        verb, *rest = shlex.split(line.partition(" | ")[0])[2:]
        assert verb in OF_SERVICES, f"{name}: {line}"
        containers = list(containers_of(verb, rest))
        assert set(containers) <= {*COMPOSE["services"], SERVICE}, f"{name}: {line}"


def test_settings_that_are_named_exist() -> None:
    # Keys of models have names of their own.
    families = ("SKEIN_EMBEDDINGS_API_KEY_",)
    for name, setting in named(r"\bSKEIN_[A-Z0-9_]+"):
        assert setting.removesuffix("_FILE") in fix_settings.VARIABLES or setting in families, f"{name}: {setting}"


def test_metrics_that_are_named_exist() -> None:
    made = set(REGISTRY._names_to_collectors) | {rule["record"] for rule in RULES if "record" in rule}
    roles = {f"skein_{name}" for name in (*registry.NAMES, "owner")}
    for name, metric in named(METRIC, PROSE):
        assert metric in made | roles, f"{name}: {metric}"


def test_reasons_of_errors_that_are_named_exist() -> None:
    reasons = {value.removeprefix("ERROR_REASON_") for value in errors_pb2.ErrorReason.keys()[1:]}
    for name, reason in named(r"`(?!SKEIN_|POSTGRES_)([A-Z]+_[A-Z_]+)`", PROSE):
        assert reason in reasons | NO_REASONS, f"{name}: {reason}"


def test_events_that_are_searched_for_are_logged() -> None:
    code = "\n".join(
        file.read_text("utf-8") for folder in ("libs", "services") for file in (ROOT / folder).rglob("*.py")
    )
    results = [
        (name, event)
        for name, line in commands()
        for event in re.findall(r"grep .*?\b([a-z]+_[a-z_]+)\b", line) + re.findall(r"-e ([a-z]+_[a-z_]+)\b", line)
    ]

    assert results
    for name, event in results:
        assert re.search(rf'"{event}', code), f"{name}: {event}"


def test_methods_that_are_named_exist() -> None:
    short = {path.rpartition(".")[2] for path in ACCESS}
    for name, method in named(r"`(\w+Service/\w+)`"):
        assert method in short, f"{name}: {method}"


def named(pattern: str | re.Pattern[str], pages: dict[str, str] = PAGES) -> list[tuple[str, str]]:
    """Return what a pattern finds in pages, with their names. Nothing at all is a failure."""
    results = [(name, value) for name, text in pages.items() for value in re.findall(pattern, text)]
    assert results, pattern
    return results


def commands() -> Iterator[tuple[str, str]]:
    """Yield every command of every page: lines of its blocks, and what stands in its sentences as code."""
    for name, text in PAGES.items():
        for line in blocks(text, "sh"):
            yield name, line
        for line in re.findall(r"`((?:skein|docker compose) [^`]+)`", prose(text)):
            yield name, line


def understood(arguments: list[str]) -> bool:
    """Say whether the command line takes these arguments; upper-case words stand for values."""
    command: click.Command = skein
    context = click.Context(command)
    while isinstance(command, click.Group) and arguments:
        result = command.get_command(context, arguments[0])
        if result is None:
            return False
        command, arguments = result, arguments[1:]
        context = click.Context(command, parent=context)
    if isinstance(command, click.Group):
        return False
    try:
        _, rest, _ = command.make_parser(context).parse_args(list(arguments))
    except click.UsageError:
        return False
    return not rest


def containers_of(verb: str, words: list[str]) -> Iterator[str]:
    """Yield the names of services in the arguments of a verb of `docker compose`."""
    takes_value = ("--tail", "--since", "--format", "--scale")
    words = list(words)
    while words:
        word = words.pop(0)
        if word == "--scale":
            yield words.pop(0).partition("=")[0]
        elif word in takes_value:
            words.pop(0)
        elif not word.startswith("-"):
            yield word
            if verb in {"exec", "run"}:
                return
