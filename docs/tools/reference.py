"""Writes what docs/ has from the code and from texts (`write`), or says whether it is so (`check`).

That is docs/reference, docs/drawings, and the errors by symptom of docs/troubleshooting.md.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import drawings
import registries
import rpc_pages
from markdown_text import anchor, code, paragraphs, prose, rpc_link, table

HOME = Path(__file__).parents[1] / "reference"
DRAWINGS = Path(__file__).parents[1] / "drawings"
_HEAD = "<!-- Written by `make reference`. Not for editing. -->\n\n"
TROUBLESHOOTING = HOME.parent / "troubleshooting.md"
_BEGIN, _END = (f"<!-- {word} of what `make reference` writes. -->" for word in ("Begin", "End"))
# What a person sees, what is often behind it, and the reasons of it that are asked for most.
SYMPTOMS: dict[str, tuple[str, ...]] = {
    "A credential does not work": (
        "Each data folder has its own `credentials.json`: `SKEIN_ENDPOINT` and `SKEIN_API_KEY` come from the same one.",
        *(
            "CREDENTIAL_MISSING",
            "CREDENTIAL_INVALID",
            "CREDENTIAL_EXPIRED",
            "SIGN_IN_REFUSED",
            "SECOND_FACTOR_REQUIRED",
        ),
    ),
    "The caller may not": (
        "`skein keys create` makes a key with the [permission](reference/permissions.md) that an RPC needs.",
        *("PERMISSION_MISSING", "ROLE_TOO_LOW", "TENANT_MISSING", "AGENT_BOUND", "SPACE_MISSING", "SPACE_READ_ONLY"),
        "APPROVAL_REQUIRED",
    ),
    "It is not there": (
        "A row of another tenant, or of a space without a grant, is answered like one that does not exist.",
        *("MEMORY_NOT_FOUND", "SESSION_NOT_FOUND", "SUBJECT_NOT_FOUND", "SPACE_NOT_FOUND", "TENANT_NOT_FOUND"),
        "METHOD_NOT_FOUND",
    ),
    "It is there already": (
        "A fact's key has one current fact: `on_conflict` says what becomes of a second one.",
        *("FACT_KEY_TAKEN", "EXTERNAL_ID_TAKEN", "REQUEST_ID_REUSED", "SUBJECT_EXISTS", "SUBJECT_DELETED"),
    ),
    "Another write came first": (
        "Read again, then repeat with a new `request_id`.",
        *("REVISION_STALE", "TRANSACTION_CONFLICT", "CONTEXT_LEDGER_CHANGED"),
    ),
    "Too much, or too fast": (
        "The clients wait as long as `RetryInfo` says, and repeat by themselves.",
        *("RATE_LIMITED", "QUOTA_EXCEEDED", "OVERLOADED", "READ_TOO_COSTLY", "MESSAGE_TOO_LARGE", "CONTENT_TOO_LONG"),
        "TOO_MANY_STREAMS",
    ),
    "It takes too long, or nothing answers": (
        "Repeat it: with the same `request_id` a write is done once. `skein status` shows which services answer.",
        *("DEADLINE_EXCEEDED", "RECALL_TIMED_OUT", "RECALL_INCOMPLETE", "SERVICE_UNAVAILABLE", "DATABASE_UNAVAILABLE"),
        *("DATABASE_BUSY", "DATABASE_FULL"),
    ),
    "The request is not understood": (
        "The error's details name each field that is wrong.",
        *("INVALID_FIELD", "FILTER_INVALID", "FILTER_FIELD_UNKNOWN", "QUERY_EMPTY", "PAGE_TOKEN_INVALID"),
        *("UPDATE_MASK_INVALID", "POLICY_FIELD_UNKNOWN", "TYPE_NOT_ALLOWED", "CONTENT_REFUSED"),
    ),
    "Models and learning": (
        "[Your own model](guides/your-model.md) has the settings.",
        *("MODEL_UNAVAILABLE", "MODEL_NOT_INSTALLED", "EMBEDDING_MODEL_NOT_OFFERED", "DIMENSIONS_MISMATCH"),
        *("VECTORS_MISSING", "EXTRACTION_OFF", "MASTER_KEY_MISSING"),
    ),
    "An answer of an earlier time": (
        "[Time travel](guides/time-travel.md) says what is kept.",
        *("NOT_KNOWN_THEN", "HISTORY_NOT_KEPT", "MODEL_DROPPED_SINCE"),
    ),
}


def main(verb: str) -> None:
    """Write the pages, or end with a message when they are not what the code gives."""
    registries.import_everything()
    try:
        pages = {HOME / name: _HEAD + "\n".join(lines).rstrip() + "\n" for name, lines in reference()}
        by_symptom = symptoms()
    except registries.FactMissing as missing:
        sys.exit(f"docs/reference cannot be written: {missing}")
    pages |= drawings.drawings(DRAWINGS)
    old = {path: path.read_text("utf-8") for path in (*HOME.rglob("*.md"), *DRAWINGS.glob("*.svg"), TROUBLESHOOTING)}
    before, _, rest = old[TROUBLESHOOTING].partition(_BEGIN)
    pages[TROUBLESHOOTING] = "\n".join([f"{before}{_BEGIN}", "", *by_symptom, f"{_END}{rest.partition(_END)[2]}"])
    stale = sorted(path for path in pages.keys() | old.keys() if pages.get(path) != old.get(path))
    if verb == "check":
        if stale:
            names = [str(path.relative_to(HOME.parents[1])) for path in stale]
            sys.exit("\n  ".join(["Not what the code or the text gives (run `make reference` and commit):", *names]))
        return
    for path in stale:
        if path in pages:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(pages[path], "utf-8")
        else:
            path.unlink()


def reference() -> Iterator[tuple[str, list[str]]]:
    """Yield each page below docs/reference with its lines."""
    packages = registries.proto_packages()
    yield "README.md", index(list(packages))
    yield "settings.md", settings()
    yield "metrics.md", metrics()
    yield "alerts.md", alerts()
    yield "errors.md", errors()
    yield "permissions.md", permissions()
    yield "audit-events.md", audit_events()
    yield "mcp-tools.md", mcp_tools()
    yield "cli.md", cli()
    for package, files in packages.items():
        yield f"rpc/{package}.md", rpc_pages.page(package, files)


def index(packages: Sequence[str]) -> list[str]:
    """Return the page that lists the others."""
    return [
        "# Reference",
        "",
        "These pages are generated from the code by `make reference`, and `make check` compares them with it.",
        "",
        *table(
            ("page", "lists", "comes from"),
            [
                ("[Settings](settings.md)", "every variable and port", "the settings dataclasses"),
                ("[Metrics](metrics.md)", "every metric at `/metrics`", "the Prometheus registry"),
                ("[Alerts](alerts.md)", "every alert and objective", "the Prometheus rules"),
                ("[Errors](errors.md)", "every reason of an error", "the error classes and errors.proto"),
                ("[Permissions](permissions.md)", "permissions, roles and their RPCs", "the protos"),
                ("[Audit events](audit-events.md)", "every event of the audit log", "the auth service"),
                ("[MCP tools](mcp-tools.md)", "every tool by toolset", "the gateway's toolsets"),
                ("[Command line](cli.md)", "every command of `skein`", "its click commands"),
                *(
                    (f"[RPCs of {package}](rpc/{package}.md)", "services, messages, enums", "the protos")
                    for package in packages
                ),
            ],
        ),
    ]


def settings() -> list[str]:
    """Return the page of settings and ports."""
    lines = [
        "# Settings",
        "",
        "A process reads its settings from the environment once, before it opens a socket.",
        "A setting of text may also come from the file that the variable with `_FILE` appended names; secrets belong",
        "there. `skein config check` reports what is wrong with an environment, and `skein config show` prints it.",
        "A `SKEIN_*` name that nothing reads stops the start of a process and names the nearest setting.",
        "",
    ]
    groups = registries.settings_groups()
    for readers in dict.fromkeys(group.readers for group in groups):
        found = [
            setting
            for group in groups
            if group.readers == readers
            for setting in group.settings
            if not setting.is_advanced
        ]
        lines += [
            f"## Read by {', '.join(readers)}",
            "",
            *table(
                ("variable", "default", "meaning"),
                [(code(setting.name), default(setting), prose(setting.meaning)) for setting in found],
            ),
            "",
        ]
    return [
        *lines,
        "## Advanced",
        "",
        "Only a measurement gives a reason to change one of these; each row names it.",
        "",
        *table(
            ("variable", "default", "read by", "meaning"),
            [
                (code(setting.name), default(setting), ", ".join(group.readers), prose(setting.meaning))
                for group in groups
                for setting in group.settings
                if setting.is_advanced
            ],
        ),
        "",
        "## Other variables",
        "",
        *table(
            ("variable", "meaning"),
            [
                (", ".join(map(code, names.split(", "))), prose(meaning))
                for names, meaning in registries.settings_without_dataclass().items()
            ],
        ),
        "",
        "## Ports",
        "",
        "Everything listens on 127.0.0.1 unless `SKEIN_HOST` or `SKEIN_PC2_HOST` says otherwise. The embedded Postgres",
        "has a socket and no port. `skein up --port-offset 10000` adds 10000 to each port that no setting names, for a",
        "second cluster on the machine.",
        "",
        *table(("port", "what listens there"), registries.ports()),
    ]


def default(setting: registries.Setting) -> str:
    """Return how a default is shown."""
    if setting.is_secret:
        return "secret"
    return "none" if setting.default in {None, ""} else code(str(setting.default))


def metrics() -> list[str]:
    """Return the page of metrics."""
    return [
        "# Metrics",
        "",
        "Each process shows its metrics at `/metrics` of its admin port. `service` is a gRPC service in the metrics of",
        "calls, and a service of the cluster elsewhere. The gateway counts a call that it forwards, and so does the",
        "service behind it. Histograms of calls and queries carry trace ids as OpenMetrics exemplars.",
        "",
        "A metric that a worker measures disappears when the measurement is out of date. Several workers measure the",
        "same, so take `max by (…)`.",
        "",
        *table(
            ("metric", "type", "labels", "meaning"),
            [
                (code(metric.name), metric.kind, ", ".join(metric.labels), prose(metric.meaning))
                for metric in registries.metrics()
            ],
        ),
    ]


def alerts() -> list[str]:
    """Return the page of objectives and alerts."""
    found = registries.alerts()
    lines = [
        "# Alerts",
        "",
        "The rules lie in `deploy/prometheus/rules`. A page needs a person now; a ticket can wait for working hours.",
        "[Service level objectives](../../deploy/slo.md) explains burn rates and thresholds.",
        "",
        "## Objectives",
        "",
        *table(
            ("objective", "good calls over 30 days"),
            [(code(name), f"{1 - share:.1%}") for name, share in registries.objectives()],
        ),
        "",
    ]
    for group in dict.fromkeys(alert.group for alert in found):
        lines += [
            f"## {group.capitalize()}",
            "",
            *table(
                ("alert", "severity", "summary", "runbook"),
                [
                    (
                        code(alert.name),
                        alert.severity,
                        prose(template(alert.summary)),
                        f"[{Path(alert.runbook).stem}](../../{alert.runbook})",
                    )
                    for alert in found
                    if alert.group == group
                ],
            ),
            "",
        ]
    return lines


def template(text: str) -> str:
    """Return an annotation with its placeholders as words."""
    text = re.sub(r"\{\{ (?:or )?\$labels\.(\w+)(?: [^}]*)? \}\}", r"<\1>", text)
    return re.sub(r"\{\{ \$value[^}]*\}\}", "<value>", text)


def errors() -> list[str]:
    """Return the page of errors, a section for each status code."""
    found = registries.error_reasons()
    lines = [
        "# Errors",
        "",
        'Every error carries a `google.rpc.ErrorInfo` with the domain "skein" and one of these reasons, and',
        "`BadRequest` with each invalid field, and `RetryInfo` where a retry helps. The message is a plain English",
        "sentence; words in braces are values from the metadata. Over HTTP the same error is JSON.",
        "",
        "Repeat a change only with the same `request_id`: it is then done once.",
        "",
    ]
    advice = {
        "ABORTED": "Read the row again if the reason says so, then repeat the call.",
        "DEADLINE_EXCEEDED": "Repeat the call with more time, or ask for less.",
        "INTERNAL": "Report it with the request id of the error.",
        "RESOURCE_EXHAUSTED": "Wait as long as `RetryInfo` says, then repeat the call.",
        "UNAUTHENTICATED": "Get a new credential; repeating the call does not help.",
        "UNAVAILABLE": "Repeat the call after the time in `RetryInfo`.",
    }
    for status in sorted({status for each in found for status in each.codes}):
        lines += [
            f"## {status}",
            "",
            *([advice[status], ""] if status in advice else []),
            *table(
                ("reason", "message", "explanation"),
                [
                    (
                        code(each.reason),
                        "<br>".join(map(prose, each.messages)),
                        prose(" ".join((each.explanation[:1].upper() + each.explanation[1:], retry(each))).strip()),
                    )
                    for each in found
                    if status in each.codes
                ],
            ),
            "",
        ]
    return lines


def retry(each: registries.ErrorReason) -> str:
    """Return the sentence about RetryInfo."""
    return "" if each.retry_after is None else f"Retry after {each.retry_after:g} s."


def symptoms() -> list[str]:
    """Return the errors by symptom, a section for each. Raises FactMissing for a reason that the contract lacks."""
    found = {each.reason: each for each in registries.error_reasons()}
    lines: list[str] = []
    for symptom, (cause, *reasons) in SYMPTOMS.items():
        if unknown := set(reasons) - found.keys():
            message = f"The contract has no reason {', '.join(sorted(unknown))}."
            raise registries.FactMissing(message)
        rows = [(code(reason), "<br>".join(map(prose, found[reason].messages))) for reason in reasons]
        lines += [f"### {symptom}", "", cause, "", *table(("reason", "what to do"), rows), ""]
    return lines


def permissions() -> list[str]:
    """Return the page of permissions."""
    found = registries.permissions()
    return [
        "# Permissions",
        "",
        "API keys, service accounts and applications carry permissions; OAuth calls them scopes. A member of a tenant",
        "has those of its role, and each role has those of the roles before it: viewer, member, admin, owner.",
        "A credential never passes on a permission that it does not have. Another tenant's row is NOT_FOUND, never",
        "PERMISSION_DENIED.",
        "",
        *table(
            ("permission", "first role", "lets a caller"),
            [(f"[{code(each.name)}](#{anchor(each.name)})", each.role, prose(each.meaning)) for each in found],
        ),
        "",
        *(line for each in found for line in permission(each)),
        "## Approval",
        "",
        "What becomes of a write whose source [waits for approval](../guides/approval.md):",
        "",
        *table(
            ("the write", "RPCs"),
            [(kind, ", ".join(rpc_link(rpc, "rpc/") for rpc in rpcs)) for kind, rpcs in registries.approvals()],
        ),
        "",
    ]


def permission(each: registries.Permission) -> list[str]:
    """Return the section of one permission: its RPCs."""
    by_service: dict[str, list[str]] = {}
    for rpc in each.rpcs:
        by_service.setdefault(rpc.partition("/")[0], []).append(rpc)
    return [
        f"## {each.name}",
        "",
        *(f"- {service}: " + ", ".join(rpc_link(rpc, "rpc/") for rpc in rpcs) for service, rpcs in by_service.items()),
        "",
    ]


def audit_events() -> list[str]:
    """Return the page of audit events."""
    return [
        "# Audit events",
        "",
        "The audit log records who did what to which credential, agent, tool, subject, member, policy or tenant, from",
        "which address, and how it ended. Every RPC that writes leaves an event here, or a row in the access log.",
        "Events of a tenant are read with `ListAuditEvents` (`audit.read`).",
        "People read their own events with `ListMyAuditEvents`. No event holds a secret or content.",
        "",
        *table(("event", "recorded when"), [(code(name), prose(text)) for name, text in registries.audit_events()]),
    ]


def mcp_tools() -> list[str]:
    """Return the page of MCP tools."""
    found = registries.tools()
    lines = [
        "# MCP tools",
        "",
        "A client chooses toolsets in the address (`/mcp?toolsets=core,graph`) or in the header `skein-toolsets`.",
        "Each tool is one RPC, with its permission, limits and errors.",
        "",
    ]
    for name in dict.fromkeys(tool.toolset for tool in found):
        lines += [
            f"## {name}",
            "",
            *table(
                ("tool", "RPC", "permission", "meaning"),
                [
                    (code(tool.name), rpc_link(tool.rpc, "rpc/"), code(tool.permission), prose(tool.meaning))
                    for tool in found
                    if tool.toolset == name
                ],
            ),
            "",
        ]
    return lines


def cli() -> list[str]:
    """Return the page of the command line."""
    lines = [
        "# Command line",
        "",
        "Commands that read print a table, or with `--json` one JSON document with the field names of the protos.",
        "An error is one sentence with what to do, on stderr.",
        "",
        "## Exit codes",
        "",
        *table(("code", "meaning"), [(str(number), meaning) for number, meaning in registries.exit_codes()]),
        "",
    ]
    for command in registries.commands():
        lines += [f"## {command.path}", "", f"```text\n{command.usage}\n```", "", paragraphs(command.help), ""]
        if command.parameters:
            lines += [
                *table(("option", "meaning"), [(code(name), prose(text)) for name, text in command.parameters]),
                "",
            ]
    return lines


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "check")
