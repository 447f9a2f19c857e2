"""The contract and the code say the same: each RPC has a rule, a promise and a validated request."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fix_catalogue import over
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor, ServiceDescriptor

from skein.auth.v1 import accounts_pb2, auth_pb2, certificates_pb2, oauth_pb2
from skein.errors.v1 import errors_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import (
    access_log_pb2,
    approvals_pb2,
    archives_pb2,
    blocks_pb2,
    curation_pb2,
    history_pb2,
    memory_pb2,
    pages_pb2,
    scores_pb2,
    snapshots_pb2,
    webhooks_pb2,
)
from skein.recall.v1 import recall_pb2
from skein.session.v1 import archives_pb2 as session_archives_pb2
from skein.session.v1 import ledgers_pb2, session_pb2, states_pb2
from skein.tenancy.v1 import jobs_pb2, limits_pb2, members_pb2, spaces_pb2, subjects_pb2, tenancy_pb2
from skein_kit.identity.permissions import (
    ACCESS_RULES,
    ACCOUNT,
    EXTRACTOR_PERMISSIONS,
    OPERATOR,
    OPERATOR_PERMISSIONS,
    PUBLIC_SERVICES,
    ROLE_PERMISSIONS,
    SYSTEM,
    SYSTEM_PERMISSIONS,
    TENANT_PERMISSIONS,
)

ROOT = Path(__file__).parents[2]
FILES = [
    access_log_pb2,
    approvals_pb2,
    archives_pb2,
    webhooks_pb2,
    accounts_pb2,
    auth_pb2,
    blocks_pb2,
    certificates_pb2,
    curation_pb2,
    gateway_pb2,
    history_pb2,
    jobs_pb2,
    ledgers_pb2,
    limits_pb2,
    members_pb2,
    spaces_pb2,
    memory_pb2,
    oauth_pb2,
    pages_pb2,
    recall_pb2,
    session_archives_pb2,
    session_pb2,
    snapshots_pb2,
    states_pb2,
    subjects_pb2,
    tenancy_pb2,
    scores_pb2,
]
SERVICES: list[ServiceDescriptor] = [service for file in FILES for service in file.DESCRIPTOR.services_by_name.values()]
METHODS: list[MethodDescriptor] = [method for service in SERVICES for method in service.methods]
# What changes nothing, or is called by the cluster itself and safe to repeat as it is.
READS = re.compile(
    "(Get|List|BatchGet|Search|Watch|Stream)[A-Z].*|TraverseLinks|FindPaths|FindSimilar|ReplayRecall|DiffRecall|ReplayContext|SpreadActivation|SuggestLinks|Explain(Score|Access)|Recall|CompareEmbeddingModels|BuildContext|EmbedText|CompileBlocks|DiffSnapshots|ExportData|"
    "Introspect|CheckItems|Exchange|ExportSubject|ExportMemories|SignRecallReceipts|RecordContexts"
)
REPEATABLE = {
    "ContinueSnapshots",
    "EnsurePartitions",
    "DecayMemories",
    "RescoreTrust",
    "ReindexMemories",
    "ChainAuditEvents",
    "DeleteExpired",
    "EndIdleSessions",
    "InheritParticipants",
    "IndexItems",
    "IndexBacklog",
    "ContinueReindex",
    "PurgeTenant",
    # Repeated by the worker: each goes on where the last left off.
    "DeliverWebhooks",
    "ArchiveIdleMemories",
    "ApplyRetention",
    "ArchiveHiddenSessions",
    "LeaseExtraction",
    "LeaseModelExtraction",
    "StartModelCall",
    "CompleteModelExtraction",
    # No response with a secret is saved.
    "RevealModelKey",
    "CompleteExtraction",
    "RetractFacts",
    "PurgeFacts",
    # Sends one more test each time.
    "TestWebhook",
    "CollectUsage",
    "AcquireRateLimit",
    # A repeat counts the calls again.
    "RecordRefusedCalls",
    "CheckInvitation",
    "RemoveAccount",
    "RecordDeletion",
    # A repeat finds another revision.
    "PutContextLedger",
    # Its erasure_key names the erasure.
    "IssueErasureCertificate",
    # A tenant is deleted once.
    "IssueDeletionCertificate",
}
# There is no principal yet whose requests could be told apart: each of these spends a proof that works once, or makes
# something new each time. OAuth's own calls have the form that OAuth gives them.
ANONYMOUS = {
    "SignUp",
    "VerifyEmail",
    "RequestPasswordReset",
    "ResetPassword",
    "SignIn",
    "SignInWithIdentity",
    "RefreshSession",
}
OAUTH = "skein.auth.v1.OAuthService"
SOURCES = {path: path.read_text("utf-8") for path in sorted((ROOT / "protos").rglob("*.proto"))}


def _path(method: MethodDescriptor) -> str:
    return f"/{method.containing_service.full_name}/{method.name}"


def _comment(method: MethodDescriptor) -> str:
    """Return what the contract promises of a method; nothing when it promises nothing."""
    package = method.containing_service.file.package
    service = method.containing_service.name
    text = next(text for text in SOURCES.values() if f"package {package};" in text and f"service {service} {{" in text)
    text = text[text.index(f"service {service} {{") :]
    items = re.search(rf"// {method.name} [^\n]+\n(\s*//[^\n]*\n)*\s*rpc {method.name}\(", text)
    return items.group() if items else ""


def test_every_proto_is_looked_at() -> None:
    # Those of errors and of options have no service and no request.
    assert len(SOURCES) == len(FILES) + 2


def test_the_access_table_has_one_rule_for_each_rpc_and_no_other() -> None:
    assert set(ACCESS_RULES) == {_path(method) for method in METHODS}


def test_rules_speak_of_permissions_that_exist() -> None:
    requests = {rule.permission for rule in ACCESS_RULES.values() if rule.permission is not None}

    assert requests <= OPERATOR_PERMISSIONS | SYSTEM_PERMISSIONS | EXTRACTOR_PERMISSIONS | {ACCOUNT}


def test_each_role_may_do_what_the_roles_below_it_may() -> None:
    assert list(ROLE_PERMISSIONS) == ["viewer", "member", "admin", "owner"]
    assert (
        ROLE_PERMISSIONS["viewer"]
        < ROLE_PERMISSIONS["member"]
        < ROLE_PERMISSIONS["admin"]
        < ROLE_PERMISSIONS["owner"]
        == TENANT_PERMISSIONS
    )


def test_a_viewer_changes_nothing() -> None:
    changing = {path for path in ACCESS_RULES if not READS.fullmatch(path.rpartition("/")[2])}

    allowed = {path for path in changing if ACCESS_RULES[path].permission in ROLE_PERMISSIONS["viewer"]}

    # What the caller's own prompt has: no other caller sees it.
    assert allowed == {"/skein.session.v1.SessionInternalService/PutContextLedger"}


def test_no_role_and_no_key_holds_what_only_operators_services_and_people_hold() -> None:
    assert TENANT_PERMISSIONS & {OPERATOR, SYSTEM, ACCOUNT} == set()


def test_only_calls_without_a_credential_of_their_own_are_open_to_all() -> None:
    opened = {path for path, rule in ACCESS_RULES.items() if rule.is_public}

    assert {path.rpartition("/")[2] for path in opened if OAUTH not in path} == ANONYMOUS | {
        "Exchange",
        "GetCheckKeys",
        "ListSigningKeys",
    }


def test_the_rest_of_a_deleted_tenant_is_removed_and_nothing_else() -> None:
    assert {path.rpartition("/")[2] for path, rule in ACCESS_RULES.items() if rule.allows_deleted_tenant} == {
        "PurgeTenant"
    }


def test_the_clusters_own_services_may_call_internal_rpcs_and_ask_which_tenants_there_are() -> None:
    allowed = {path for path, rule in ACCESS_RULES.items() if rule.permission in SYSTEM_PERMISSIONS}

    assert {path for path in allowed if path.split("/")[1] in PUBLIC_SERVICES} == {
        path
        for path, rule in ACCESS_RULES.items()
        if path.startswith("/skein.tenancy.v1.TenancyService/") and rule.permission == "tenant.read"
    }


def test_a_service_is_public_or_internal_and_the_gateway_s_own_is_neither() -> None:
    internal = {service.full_name for service in SERVICES} - set(PUBLIC_SERVICES)

    assert internal == {
        "skein.auth.v1.AuthInternalService",
        OAUTH,
        "skein.gateway.v1.GatewayService",
        "skein.memory.v1.MemoryInternalService",
        "skein.recall.v1.RecallInternalService",
        "skein.session.v1.SessionInternalService",
        "skein.tenancy.v1.TenancyInternalService",
    }


@over("method", METHODS, name=_path)
def test_every_rpc_makes_a_promise(method: MethodDescriptor) -> None:
    assert _comment(method)


@over("method", METHODS, name=_path)
def test_every_page_is_bounded_and_every_mutation_can_be_repeated(method: MethodDescriptor) -> None:
    fields = {field.name for field in method.input_type.fields}

    if method.name.startswith("List"):
        assert {"page_size", "page_token"} <= fields
        assert "next_page_token" in {field.name for field in method.output_type.fields}
    exempt = REPEATABLE | ANONYMOUS
    if not READS.fullmatch(method.name) and method.name not in exempt and method.containing_service.full_name != OAUTH:
        assert "request_id" in fields
        assert "request_id" in _comment(method)


@over("service", SERVICES, name=lambda service: service.full_name)
def test_times_end_in_time_and_ids_are_text(service: ServiceDescriptor) -> None:
    messages = {kind for method in service.methods for kind in (method.input_type, method.output_type)}
    for message in messages:
        for field in message.fields:
            if field.message_type is not None and field.message_type.full_name == "google.protobuf.Timestamp":
                assert field.name.endswith("_time"), field.full_name
            if field.name.endswith("_id"):
                assert field.type == FieldDescriptor.TYPE_STRING, field.full_name


def test_every_error_reason_is_explained() -> None:
    text = SOURCES[ROOT / "protos/skein/errors/v1/errors.proto"]

    for name in list(dict(errors_pb2.ErrorReason.items()))[1:]:
        assert re.search(rf"//[^\n]*\n\s*{name} =", text), name


def test_every_reason_named_in_a_comment_exists() -> None:
    known = {name.removeprefix("ERROR_REASON_") for name in dict(errors_pb2.ErrorReason.items())}
    codes = "INVALID_ARGUMENT|NOT_FOUND|ALREADY_EXISTS|FAILED_PRECONDITION|ABORTED|UNAUTHENTICATED|PERMISSION_DENIED"
    results = [
        (path.name, reason)
        for path, text in SOURCES.items()
        for listed in re.findall(rf"- (?:{codes}),([^\n]*?)(?=(?: - [A-Z])|:|\.|\n)", re.sub(r"\n\s*//", " ", text))
        for reason in re.findall(r"[A-Z][A-Z_]{5,}", listed)
    ]

    assert results
    for name, reason in results:
        assert reason in known, f"{name}: {reason}"


def test_everything_that_a_receipt_names_is_looked_for_in_the_spaces_of_its_reader() -> None:
    judged = {
        # ReceiptReader looks for the items in the spaces of the call.
        *("skein.recall.v1.ReceiptContent.item_ids", "skein.recall.v1.ReceiptContent.entity_ids"),
        *("skein.recall.v1.ContextInputs.message_ids", "skein.recall.v1.ContextInputs.blocks"),
        *("skein.recall.v1.ContextInputs.profile", "skein.memory.v1.GetPageRequest.memory_ids"),
        # What the request named. A request of another caller is shown to who sees all spaces that it reached.
        *("skein.recall.v1.ContextInputs.session_id", "skein.recall.v1.ContextInputs.subject_id"),
        "skein.memory.v1.GetPageRequest.page_id",
        # The caller, and the spaces of the search.
        *("skein.recall.v1.ReceiptContent.principal_id", "skein.recall.v1.ReceiptContent.space_ids"),
    }
    named = {
        field.full_name
        for message in (recall_pb2.ReceiptContent, recall_pb2.ContextInputs, pages_pb2.GetPageRequest)
        for field in message.DESCRIPTOR.fields
        if field.name.endswith(("_id", "_ids")) or field.message_type is recall_pb2.ItemPin.DESCRIPTOR
    }

    assert named == judged


def test_every_file_names_its_go_package() -> None:
    files = {path: path.read_text("utf-8") for path in (Path(__file__).parents[2] / "protos/skein").rglob("*.proto")}
    expected = {path: f'option go_package = "skein/{path.parts[-3]}/v1;{path.parts[-3]}v1";' for path in files}

    assert [path.name for path, line in expected.items() if line not in files[path]] == []


@pytest.mark.system
def test_a_release_keeps_its_contract_and_not_what_services_call_among_themselves(tmp_path: Path) -> None:
    for name in ("buf.yaml", "protos", "libs/protos/vendor"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, tmp_path / name)

    def contract(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(ROOT / "libs/protos/tools/contract.py"), *arguments]
        return subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)

    def change(file: str, pattern: str, replacement: str) -> None:
        path = tmp_path / "protos/skein" / file
        text, count = re.subn(pattern, replacement, path.read_text("utf-8"), count=1, flags=re.DOTALL)
        assert count == 1
        path.write_text(text, "utf-8")

    assert contract("write", "released.binpb.gz").returncode == 0
    change("recall/v1/recall.proto", r"(service RecallInternalService \{.*?)  rpc (\w+)\(", r"\1  rpc Other\2(")
    change("options/v1/options.proto", "string only_service = 5;", "string only_service = 55;")
    internal = contract("compare", "released.binpb.gz")
    change("memory/v1/memory.proto", r"(message Memory \{.*?string content) = \d+", r"\1 = 999")
    public = contract("compare", "released.binpb.gz")

    assert (internal.returncode, internal.stdout + internal.stderr) == (0, "")
    assert public.returncode != 0
    assert 'with name "content" on message "Memory" was deleted' in public.stdout
