"""What watches a cluster, read from deploy/: rules, alerts and how they are shown to fire, dashboards, runbooks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
RULE_FILES = sorted((ROOT / "deploy/prometheus/rules").glob("*.yml"))
SHOWN_FILES = sorted((ROOT / "tests/edge/rules").glob("*.yml"))
DASHBOARD_FILES = sorted((ROOT / "deploy/grafana/dashboards").glob("*.json"))
RUNBOOK_FOLDER = ROOT / "deploy/runbooks"

RULES: list[dict[str, Any]] = [
    rule
    for file in RULE_FILES
    for group in yaml.load(file.read_text("utf-8"), Loader=yaml.CSafeLoader)["groups"]
    for rule in group["rules"]
]
ALERTS: dict[str, dict[str, Any]] = {rule["alert"]: rule for rule in RULES if "alert" in rule}
# Of ours, and what the client library tells of the process.
METRIC = re.compile(r"\b(?:\w+:)*(?:skein_\w+|process_(?:cpu|resident|start|open|max)_\w+)(?::\w+)*")
_FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
# Grafana's own, and ours.
_VARIABLES = {"$__rate_interval": "1m", "$__range": "1h", "$process": ".*"}


@dataclass(frozen=True, kw_only=True)
class Query:
    """A question to Prometheus: who asks it, and what, with Grafana's variables filled in."""

    who: str
    expr: str


def panels() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each panel, with its dashboard's title."""
    for file in DASHBOARD_FILES:
        dashboard = json.loads(file.read_text("utf-8"))
        for panel in dashboard["panels"]:
            yield dashboard["title"], panel


def panel_queries() -> list[Query]:
    """Return what the dashboards ask, and what fills their variables."""
    results = [
        Query(who=f"{title}: {panel['title']}", expr=filled(target["expr"]))
        for title, panel in panels()
        for target in panel.get("targets", ())
    ]
    for file in DASHBOARD_FILES:
        for variable in json.loads(file.read_text("utf-8"))["templating"]["list"]:
            variable_match = re.fullmatch(r"label_values\((.+), \w+\)", variable["query"]["query"])
            assert variable_match is not None, variable
            results.append(Query(who=f"{file.stem}: ${variable['name']}", expr=variable_match[1]))
    return results


def rule_queries() -> list[Query]:
    """Return what the rules ask."""
    return [Query(who=rule.get("alert") or rule["record"], expr=rule["expr"]) for rule in RULES]


def runbook_queries() -> list[Query]:
    """Return what runbooks tell people to ask: each line of a block that is marked as PromQL."""
    return [
        Query(who=name, expr=line)
        for name, text in runbooks().items()
        for line in blocks(text, "promql")
        if not line.startswith("#")
    ]


def filled(expr: str) -> str:
    """Fill in Grafana's variables."""
    for name, value in _VARIABLES.items():
        expr = expr.replace(name, value)
    return expr


def runbooks() -> dict[str, str]:
    """Return every page of deploy/runbooks by its file's name."""
    return {file.name: file.read_text("utf-8") for file in sorted(RUNBOOK_FOLDER.glob("*.md"))}


def blocks(text: str, language: str) -> list[str]:
    """Return the lines of a page's blocks in one language; a line that goes on, with a backslash, is one."""
    return [
        line.strip()
        for match, body in _FENCE.findall(text)
        if match == language
        for line in body.replace("\\\n", " ").splitlines()
        if line.strip()
    ]


def prose(text: str) -> str:
    """Return a page without its blocks."""
    return _FENCE.sub("", text)
