"""Reads the facts of the reference from the code. The one file of the documents that imports the product."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import json
import pkgutil
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import click
import yaml
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, FileDescriptor, ServiceDescriptor
from prometheus_client import REGISTRY

from skein.errors.v1 import errors_pb2
from skein.options.v1 import options_pb2
from skein_auth.audit import recorder as audit
from skein_cluster import registry
from skein_cluster.cli.exit_codes import EXIT_CODE_MEANINGS as EXIT_CODES
from skein_cluster.config import catalog
from skein_cluster.main import skein
from skein_gateway.json_schema import constraints
from skein_gateway.mcp.toolsets import TOOLSETS
from skein_kit.approval import is_gated
from skein_kit.errors import RpcError
from skein_kit.identity import permissions as access
from skein_kit.rpc.declarations import method_rule
from skein_kit.settings import Settings

ROOT = Path(__file__).parents[2]
PACKAGES = ("skein_kit", "skein_client", "skein_cluster", *(f"skein_{name}" for name in registry.NAMES))
# Importing these starts the command, or needs a tool that only development has.
_NOT_IMPORTED = (".__main__", ".build_graph")


class FactMissing(Exception):
    """The code lacks a sentence that the reference needs."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One variable of a settings dataclass."""

    name: str
    default: object
    is_secret: bool
    is_advanced: bool
    meaning: str


@dataclass(frozen=True, kw_only=True)
class SettingsGroup:
    """The variables of one settings dataclass, and who reads them."""

    readers: tuple[str, ...]
    settings: list[Setting]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric of the process registry."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str


@dataclass(frozen=True, kw_only=True)
class ErrorReason:
    """One reason of the contract: its status code, the messages that callers read, and what the contract says."""

    reason: str
    codes: list[str]
    messages: list[str]
    retry_after: float | None
    explanation: str


@dataclass(frozen=True, kw_only=True)
class Permission:
    """One permission: the lowest role that has it, what it is for, and the RPCs that need it."""

    name: str
    role: str
    meaning: str
    rpcs: list[str]


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command of the command line."""

    path: str
    help: str
    usage: str
    # Name of the option or argument, and what it does.
    parameters: list[tuple[str, str]]
    subcommands: list[str]


@dataclass(frozen=True, kw_only=True)
class Tool:
    """One MCP tool."""

    name: str
    toolset: str
    rpc: str
    permission: str
    meaning: str


@dataclass(frozen=True, kw_only=True)
class Alert:
    """One alert of the Prometheus rules."""

    name: str
    group: str
    severity: str
    summary: str
    runbook: str


def import_everything() -> None:
    """Import every module, so that every settings class, error and metric exists."""
    for package in PACKAGES:
        module = importlib.import_module(package)
        for found in pkgutil.walk_packages(module.__path__, f"{package}."):
            if not found.name.endswith(_NOT_IMPORTED):
                importlib.import_module(found.name)


def settings_groups() -> list[SettingsGroup]:
    """Return every settings dataclass with its fields, in the order of the catalog. Raises FactMissing."""
    return [
        SettingsGroup(
            readers=readers,
            settings=[
                Setting(
                    name=kind.variable_of(field),
                    default=field.default,
                    is_secret=not field.repr,
                    is_advanced="advanced" in field.metadata,
                    meaning=_comments_of_fields(kind).get(field.name)
                    or _missing(f"{kind.__name__}.{field.name} has no comment above it."),
                )
                for field in dataclasses.fields(kind)
            ],
        )
        for kind, readers in catalog.SETTINGS_READERS.items()
        if issubclass(kind, Settings)
    ]


def settings_without_dataclass() -> Mapping[str, str]:
    """Return the variables that no dataclass has, with their meanings."""
    return catalog.WITHOUT_DATACLASS


def ports() -> list[tuple[str, str]]:
    """Return each port with what listens there."""
    admin = next(
        setting.default
        for group in settings_groups()
        for setting in group.settings
        if setting.name == "SKEIN_ADMIN_PORT"
    )
    return [
        *((str(port), f"{name}, gRPC") for name, port in registry.PORTS.items()),
        (str(registry.HTTP_PORT), "gateway, HTTP: JSON API, OAuth, MCP at `/mcp`, the console at `/`"),
        (str(registry.HTTP_PORT + 1), "the console, with `skein up --processes` (`SKEIN_CONSOLE_PORT`)"),
        (str(admin), "every process: `/metrics`, `/livez`, `/readyz`"),
        (
            f"{int(str(admin)) + 1} and up",
            "the same, of each further process of `skein up --processes` and `skein cluster`",
        ),
        (", ".join(map(str, registry.PC2_PORTS)), "pc2, ZeroMQ: the protocol of voice assistants"),
    ]


def metrics() -> list[Metric]:
    """Return every metric of the product, by name."""
    found = []
    for collector in set(REGISTRY._names_to_collectors.values()):  # noqa: SLF001 - the client library offers no list.
        name, kind = str(getattr(collector, "_name", "")), str(getattr(collector, "_type", ""))
        if name.startswith("skein_"):
            found.append(
                Metric(
                    name=f"{name}_total" if kind == "counter" else name,
                    kind=kind,
                    labels=tuple(getattr(collector, "_labelnames", ())),
                    meaning=str(getattr(collector, "_documentation", "")),
                )
            )
    return sorted(found, key=lambda metric: metric.name)


def error_reasons() -> list[ErrorReason]:
    """Return every reason of the contract, by name. Raises FactMissing for one that no class has."""
    comments = proto_comments()
    classes: dict[str, list[type[RpcError]]] = {}
    for kind in _subclasses(RpcError):
        if kind.reason:
            classes.setdefault(kind.reason, []).append(kind)
    found = []
    for value in errors_pb2.ErrorReason.keys()[1:]:
        reason = value.removeprefix("ERROR_REASON_")
        kinds = classes.get(reason) or _missing(f"No class of an error has the reason {reason}.")
        found.append(
            ErrorReason(
                reason=reason,
                codes=sorted({kind.code.name for kind in kinds}),
                messages=sorted({_sentence(inspect.getdoc(kind) or "") for kind in kinds}),
                retry_after=next((kind.retry_after for kind in kinds if kind.retry_after is not None), None),
                explanation=re.sub(
                    r"^[A-Z_]{2,}(?:, or [^:]*)?: ", "", _sentence(comments[f"skein.errors.v1.ErrorReason.{value}"])
                ),
            )
        )
    return sorted(found, key=lambda each: each.reason)


def permissions() -> list[Permission]:
    """Return every permission in the order of roles, those without a role at the end."""
    role_of = {
        permission: role
        for role in reversed(list(access.ROLE_PERMISSIONS))
        for permission in access.ROLE_PERMISSIONS[role]
    }
    comments = _comments_of_constants(Path(access.__file__))
    others = {
        getattr(access, constant): comments.get(constant) or _missing(f"access.{constant} has no comment above it.")
        for constant in ("ACCOUNT", "CREATE_TENANT", "OPERATOR", "SYSTEM")
    }
    order = list(access.ROLE_PERMISSIONS)
    names = sorted(
        access.PERMISSION_DESCRIPTIONS,
        key=lambda name: (order.index(role_of[name]), list(access.PERMISSION_DESCRIPTIONS).index(name)),
    )
    return [
        Permission(
            name=name,
            role=role_of.get(name, ""),
            meaning=access.PERMISSION_DESCRIPTIONS.get(name) or others[name],
            rpcs=[_short(path) for path, rule in access.ACCESS_RULES.items() if rule.permission == name],
        )
        for name in (*names, *others)
    ]


def rule_of(path: str) -> str:
    """Return in words what a caller of an RPC needs."""
    rule = access.ACCESS_RULES[path]
    services = f", from the service {' or '.join(sorted(rule.services))} alone" if rule.services else ""
    if rule.is_public:
        return f"none; the request carries its own proof{services}"
    if rule.permission is None:
        return f"any credential{services}"
    return f"`{rule.permission}`{services}"


def approvals() -> list[tuple[str, list[str]]]:
    """Return what becomes of writes whose source waits for approval, and the RPCs of each kind."""
    kinds = {
        "waits, or is refused as far as it cannot wait": [
            path for path in access.ACCESS_RULES if method_rule(path).approval == options_pb2.APPROVAL_RULE_WAITS
        ],
        "is refused": [
            path
            for path in access.ACCESS_RULES
            if is_gated(method_rule(path)) and method_rule(path).approval != options_pb2.APPROVAL_RULE_WAITS
        ],
        "is done": [
            path for path in access.ACCESS_RULES if method_rule(path).approval == options_pb2.APPROVAL_RULE_PASSES
        ],
    }
    return [(kind, [_short(path) for path in paths]) for kind, paths in kinds.items()]


def commands() -> Iterator[Command]:
    """Yield every command, groups before what they hold; hidden options are left out."""
    yield from _commands(skein, "skein")


def exit_codes() -> list[tuple[int, str]]:
    """Return each exit code of the command line with its meaning."""
    return [(int(code), meaning) for code, meaning in EXIT_CODES.items()]


def audit_events() -> list[tuple[str, str]]:
    """Return each event of the audit log with its meaning. Raises FactMissing."""
    tree = ast.parse(Path(audit.__file__).read_text("utf-8"))
    lines = Path(audit.__file__).read_text("utf-8").splitlines()
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    found = {node.value: comment for node in constants if (comment := _comment_above(lines, node.lineno))}
    return [
        (event, found.get(event) or _missing(f"The audit event {event} has no comment above it."))
        for event in sorted(audit.EVENTS)
    ]


def tools() -> list[Tool]:
    """Return every MCP tool in the order of the toolsets."""
    return [
        Tool(name=tool.name, toolset=name, rpc=_short(tool.path), permission=tool.permission, meaning=tool.text)
        for name, members in TOOLSETS.items()
        for tool in members
    ]


def alerts() -> list[Alert]:
    """Return every alert in the order of the rules."""
    return [
        Alert(
            name=rule["alert"],
            group=file.stem,
            severity=rule["labels"]["severity"],
            summary=rule["annotations"]["summary"],
            runbook=rule["annotations"]["runbook"],
        )
        for file in sorted((ROOT / "deploy/prometheus/rules").glob("*.yml"))
        for group in yaml.safe_load(file.read_text("utf-8"))["groups"]
        for rule in group["rules"]
        if "alert" in rule
    ]


def objectives() -> list[tuple[str, float]]:
    """Return each service level objective with the share of calls that may be bad."""
    return [
        (rule["labels"]["slo"], float(rule["expr"].removeprefix("vector(").removesuffix(")")))
        for group in yaml.safe_load((ROOT / "deploy/prometheus/rules/slo.yml").read_text("utf-8"))["groups"]
        for rule in group["rules"]
        if rule.get("record") == "slo:skein_budget:ratio"
    ]


def proto_comments() -> Mapping[str, str]:
    """Return what the protos say, by full name; a value of an enum stands below its enum."""
    found: dict[str, str] = json.loads(resources.files("skein").joinpath("comments.json").read_text("utf-8"))
    return found


def proto_packages() -> dict[str, list[FileDescriptor]]:
    """Return the files of the contract by the name of their package, without errors.proto."""
    pool = descriptor_pool.Default()
    found: dict[str, list[FileDescriptor]] = {}
    for path in sorted((ROOT / "protos").rglob("*.proto")):
        name = path.relative_to(ROOT / "protos").as_posix()
        importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
        package = name.split("/")[1]
        if package != "errors":
            found.setdefault(package, []).append(pool.FindFileByName(name))
    return found


def services_of(files: Sequence[FileDescriptor]) -> list[ServiceDescriptor]:
    """Return the services of a package."""
    return [service for file in files for service in file.services_by_name.values()]


def messages_of(files: Sequence[FileDescriptor]) -> list[Descriptor]:
    """Return every message of a package by its name, those inside others too, without the entries of maps."""
    top = [message for file in files for message in file.message_types_by_name.values()]
    found = [each for message in top for each in (message, *_nested(message))]
    return sorted((each for each in found if not each.GetOptions().map_entry), key=lambda each: each.full_name)


def enums_of(files: Sequence[FileDescriptor]) -> list[EnumDescriptor]:
    """Return every enum of a package by its name."""
    found = [enum for file in files for enum in file.enum_types_by_name.values()]
    found += [enum for message in messages_of(files) for enum in message.enum_types]
    return sorted(found, key=lambda each: each.full_name)


def limits_of(field: FieldDescriptor) -> dict[str, Any]:
    """Return the validation rules of a field as keywords of JSON Schema; "required", and "words" for all others."""
    rules = constraints.rules_of(field)
    found = {**constraints.keywords(rules), **constraints.sizes(rules)}
    if constraints.is_required(field, rules):
        found["required"] = True
    return {**found, "words": constraints.constraint_sentences(rules)}


def is_public(service: str) -> bool:
    """Say whether callers reach the service through the gateway."""
    return service in access.PUBLIC_SERVICES or service == "skein.gateway.v1.GatewayService"


def _nested(message: Descriptor) -> Iterator[Descriptor]:
    for inner in message.nested_types:
        yield inner
        yield from _nested(inner)


def _commands(command: click.Command, path: str) -> Iterator[Command]:
    context = click.Context(command, info_name=path)
    names = command.list_commands(context) if isinstance(command, click.Group) else []
    pieces = " ".join(command.collect_usage_pieces(context))
    records = [
        parameter.get_help_record(context) or (parameter.make_metavar(context), "")
        for parameter in command.get_params(context)
        if not getattr(parameter, "hidden", False) and "--help" not in parameter.opts
    ]
    yield Command(
        path=path,
        help=inspect.cleandoc(command.help or "").replace("\b\n", ""),
        usage=f"{path} {pieces}",
        parameters=[(name, text) for name, text in records],
        subcommands=list(names),
    )
    for name in names:
        found = command.get_command(context, name) if isinstance(command, click.Group) else None
        if found is not None:
            yield from _commands(found, f"{path} {name}")


def _comments_of_fields(kind: type[Any]) -> dict[str, str]:
    lines = textwrap.dedent(inspect.getsource(kind)).splitlines()
    (body,) = (node for node in ast.parse("\n".join(lines)).body if isinstance(node, ast.ClassDef))
    return {
        node.target.id: _comment_above(lines, node.lineno)
        for node in body.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def _comments_of_constants(path: Path) -> dict[str, str]:
    lines = path.read_text("utf-8").splitlines()
    return {
        node.targets[0].id: _comment_above(lines, node.lineno)
        for node in ast.parse("\n".join(lines)).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }


def _comment_above(lines: Sequence[str], number: int) -> str:
    """Return the comment that ends right above a line, which is numbered from 1."""
    found: list[str] = []
    for line in reversed(lines[: number - 1]):
        if not line.strip().startswith("#"):
            break
        found.insert(0, line.strip().removeprefix("#").strip())
    return " ".join(found)


def _subclasses(base: type[RpcError]) -> Iterator[type[RpcError]]:
    for each in base.__subclasses__():
        yield each
        yield from _subclasses(each)


def _sentence(text: str) -> str:
    return " ".join(text.split())


def _short(path: str) -> str:
    return path.removeprefix("/skein.")


def _missing(message: str) -> Any:
    raise FactMissing(message)


if __name__ == "__main__":
    sys.exit("Run docs/tools/reference.py.")
