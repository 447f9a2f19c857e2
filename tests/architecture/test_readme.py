"""README.md says what the code says, table by table."""

from __future__ import annotations

import re
from pathlib import Path

import fix_settings
import pytest
from prometheus_client import REGISTRY

from skein.errors.v1 import errors_pb2
from skein_cluster import registry
from skein_kit.identity.permissions import ACCOUNT, CREATE_TENANT, OPERATOR, ROLE_PERMISSIONS, SYSTEM

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
FENCED = re.DOTALL | re.MULTILINE
SECTIONS = (
    *(
        "The services",
        "The nouns",
        "Two commands",
        "One request, followed",
        "Getting in",
        "Console",
        "MCP",
        "In containers",
        "Deploys",
        "Several machines",
        "Ports",
        "Settings",
    ),
    *("Metrics", "Watching it", "Errors", "Permissions", "Tests", "Not here yet", "Where to read next"),
)


def section(title: str) -> str:
    return README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    """Return the cells of a section's tables, without their heads."""
    tables = re.findall(r"(?:^\|.*\n)+", section(title) + "\n", re.MULTILINE)
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for table in tables for line in table.splitlines()[2:]
    ]


def test_it_is_read_in_the_order_of_somebody_who_is_new() -> None:
    assert tuple(re.findall(r"^## (.+)$", README, re.MULTILINE)) == SECTIONS


def test_every_service_has_a_row_that_leads_to_its_own_page() -> None:
    named = [re.fullmatch(r"\[(\w+)\]\((.+)\)", row[0]) for row in rows("The services")]

    assert {match[1]: match[2] for match in named if match} == {
        name: f"services/{name}/README.md" for name in registry.NAMES
    }


def test_every_setting_is_in_the_table_with_its_default() -> None:
    told = {row[0].strip("`"): row[1].strip("`") for row in rows("Settings") if len(row) == 4}
    expected = {
        name: "secret" if name in fix_settings.SECRETS else str(default) if default not in {None, ""} else "none"
        for name, default in fix_settings.FIELDS.items()
    }

    assert told == expected


def test_variables_without_a_dataclass_are_in_the_other_table() -> None:
    told = {name for row in rows("Settings") if len(row) == 2 for name in re.findall(r"`(SKEIN_[^`]+)`", row[0])}
    patterns = [re.sub(r"<SERVICE>", r"[A-Z0-9]+", name) for name in told]

    for variable in fix_settings.OF_EACH_SERVICE | fix_settings.OF_CALLERS:
        assert any(re.fullmatch(pattern, variable) for pattern in patterns), variable


def test_every_port_is_in_the_table() -> None:
    ports = {int(port) for row in rows("Ports") for port in re.findall(r"\b\d{4,5}\b", f"{row[0]} {row[1]}")}
    voice = re.findall(r"^ +(\d{4}): ", (ROOT / "services/pc2/skein_pc2/service.py").read_text("utf-8"), re.MULTILINE)

    http, admin = fix_settings.FIELDS["SKEIN_HTTP_PORT"], fix_settings.FIELDS["SKEIN_ADMIN_PORT"]
    assert ports == {*registry.PORTS.values(), *map(int, voice), http, admin}
    for name, port in registry.PORTS.items():
        assert any(row[0] == str(port) and row[1].startswith(name) for row in rows("Ports")), name


def test_every_metric_is_in_the_table_with_its_kind_and_labels() -> None:
    made = {}
    for metric in set(REGISTRY._names_to_collectors.values()):
        name, kind = getattr(metric, "_name", ""), getattr(metric, "_type", "")
        if name.startswith("skein_"):
            labels: tuple[str, ...] = getattr(metric, "_labelnames", ())
            made[f"{name}_total" if kind == "counter" else name] = (kind, ", ".join(labels))

    assert {row[0].strip("`"): (row[1], row[2]) for row in rows("Metrics")} == made


def test_every_reason_is_in_the_table_under_its_code() -> None:
    told = {reason: row[0] for row in rows("Errors") for reason in re.findall(r"`(\w+)`", row[1])}
    source = (ROOT / "protos/skein/errors/v1/errors.proto").read_text("utf-8")

    for reason, code in told.items():
        assert re.search(rf"// {code}\b[^\n]*\n(?:\s*//[^\n]*\n)*\s*ERROR_REASON_{reason} = ", source), reason
    assert {f"ERROR_REASON_{reason}" for reason in told} == set(errors_pb2.ErrorReason.keys()[1:])


def test_every_permission_is_in_the_table_with_the_first_role_that_has_it() -> None:
    first = {permission: role for role in reversed(list(ROLE_PERMISSIONS)) for permission in ROLE_PERMISSIONS[role]}
    others = dict.fromkeys((ACCOUNT, CREATE_TENANT, OPERATOR, SYSTEM), "")

    assert {row[0].strip("`"): row[1] for row in rows("Permissions")} == {**first, **others}


def test_every_command_line_that_reads_a_data_folder_reads_the_one_that_the_environment_names() -> None:
    pages = [
        *DOCUMENTS,
        *ROOT.glob("services/*/README.md"),
        *ROOT.glob("libs/*/README.md"),
        *ROOT.glob("deploy/**/*.md"),
    ]
    blocks = [
        block
        for page in pages
        for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text("utf-8"), FENCED)
        if language in {"", "sh"}
    ]
    lines = [
        line for block in blocks for line in block.splitlines() if re.search(r"credentials\.json|share/skein", line)
    ]

    assert lines
    for line in lines:
        assert "${SKEIN_DATA_DIR:-" in line, line


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", document.read_text("utf-8")):
        assert (document.parent / target).exists(), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_make_target_that_is_named_exists(document: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))

    assert set(re.findall(r"(?:^|`|=many )make ([a-z-]+)", document.read_text("utf-8"), re.MULTILINE)) <= targets


def test_memory_s_page_names_every_table_of_its_schema() -> None:
    folder = ROOT / "services/memory"
    said = re.search(
        r"\*\*Tables\*\* \(schema `memory`\): (.*?)\. ", (folder / "README.md").read_text("utf-8"), re.DOTALL
    )
    made = {
        name
        for migration in (folder / "skein_memory/migrations").glob("*.sql")
        for name in re.findall(r"^CREATE TABLE memory\.(\w+) \(", migration.read_text("utf-8"), re.MULTILINE)
    }

    assert said is not None
    assert set(re.findall(r"`(\w+)`", said[1])) == made
