"""What `skein config` says of an environment, and which names are refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import fix_settings
import pytest
from click.testing import CliRunner, Result
from fix_catalogue import over
from fix_identities import identity_environment, without_certificates
from fix_tls import made_in

from skein_cluster import registry
from skein_cluster.commands.config import REDACTED
from skein_cluster.config import catalog
from skein_cluster.config.check import find_problems
from skein_cluster.config.unknown_settings import refuse_unknown_settings, unknown_settings
from skein_cluster.main import skein
from skein_kit.settings import SettingInvalid

SYSTEM_KEY = "a system key that is long enough for this"


def run(*arguments: str, **environment: str) -> Result:
    """Run `skein config` with these settings and no others."""
    others = dict.fromkeys((name for name in catalog.setting_names()), None)
    return CliRunner(env={**others, **environment}).invoke(skein, ["config", *arguments])


def served(**environment: str) -> dict[str, str]:
    base = {"SKEIN_DATABASE_URL": "postgresql://here/skein", "SKEIN_SYSTEM_KEY": SYSTEM_KEY}
    return base | identity_environment() | environment


def test_every_settings_class_is_in_the_catalog() -> None:
    assert set(catalog.SETTINGS_READERS) == set(fix_settings.settings_classes())


def test_every_variable_is_known_to_the_command() -> None:
    assert catalog.setting_names() >= fix_settings.VARIABLES - {"SECURE_ZMQ"}


def test_every_variable_without_a_dataclass_has_a_meaning() -> None:
    patterns = [re.sub(r"<\w+>", r"\\w+", name) for names in catalog.WITHOUT_DATACLASS for name in names.split(", ")]
    of_dataclasses = {f"{name}{end}" for name in fix_settings.FIELDS for end in ("", catalog.FILE)}
    others = catalog.setting_names() - of_dataclasses

    assert others
    for name in others:
        assert any(re.fullmatch(pattern, name.removesuffix(catalog.FILE)) for pattern in patterns), name


@over(
    ("name", "nearest"),
    [
        ("SKEIN_POOLSIZE", "SKEIN_POOL_SIZE"),
        ("SKEIN_POOL_TIMEOUT_SECONDS", "SKEIN_ADVANCED_POOL_TIMEOUT_SECONDS"),
        ("SKEIN_MEMORY_ADRESS", "SKEIN_MEMORY_ADDRESS"),
        ("SKEIN_SYSTEM_KEYFILE", "SKEIN_SYSTEM_KEY_FILE"),
        ("SKEIN_PC2_PORT5570", "SKEIN_PC2_PORT_5570"),
        ("SKEIN_AUTH_DATABASE_PASSWD", "SKEIN_AUTH_DATABASE_PASSWORD"),
    ],
)
def test_a_misspelled_name_is_refused_with_the_nearest_one(name: str, nearest: str) -> None:
    with pytest.raises(SettingInvalid, match=rf"^{name} is not a setting; did you mean {nearest}"):
        refuse_unknown_settings({name: "1"})


@over(
    "name",
    [
        *("SKEIN_SYSTEM_KEY_FILE", "SKEIN_PC2_API_KEY_5596_FILE", "SKEIN_EMBEDDINGS_API_KEY_TEXT_3_SMALL_FILE"),
        *("SKEIN_AUTH_DATABASE_PASSWORD_FILE", "SKEIN_PC2_5598", "SKEIN_TEST_EXAMPLES", "SKEIN_API_KEY_FILE"),
        *("SKEINLESS", "PATH", "SECURE_ZMQ"),
    ],
)
def test_names_that_something_reads_are_let_be(name: str) -> None:
    refuse_unknown_settings({name: "1"})


def test_a_number_does_not_come_from_a_file() -> None:
    assert list(unknown_settings({"SKEIN_POOL_SIZE_FILE": "x"})) == [
        "SKEIN_POOL_SIZE_FILE is not a setting: SKEIN_POOL_SIZE cannot be read from a file."
    ]


def test_service_links_of_kubernetes_are_named_as_what_they_are() -> None:
    links = {
        "SKEIN_MEMORY_SERVICE_HOST": "10.0.0.7",
        "SKEIN_MEMORY_SERVICE_PORT": "50054",
        "SKEIN_MEMORY_SERVICE_PORT_GRPC": "50054",
        "SKEIN_MEMORY_PORT": "tcp://10.0.0.7:50054",
        "SKEIN_MEMORY_PORT_50054_TCP_ADDR": "10.0.0.7",
    }

    (problem,) = unknown_settings(links)

    assert problem == (
        "SKEIN_MEMORY_PORT and 4 more come from Kubernetes' service links: set enableServiceLinks: false in the"
        " pod's spec."
    )


@pytest.mark.parametrize(
    "command", [["up"], ["cluster"], ["serve", "memory"], ["migrate"], ["bootstrap"]], ids=" ".join
)
def test_every_command_that_serves_refuses_a_name_that_is_no_setting(command: list[str], tmp_path: Path) -> None:
    runner = CliRunner(env={"SKEIN_DATA_DIR": str(tmp_path), "SKEIN_LOGLEVEL": "debug"})

    ended = runner.invoke(skein, command)

    assert isinstance(ended.exception, SettingInvalid)
    assert str(ended.exception) == "SKEIN_LOGLEVEL is not a setting; did you mean SKEIN_LOG_LEVEL?"


@over(
    ("services", "settings", "message"),
    [
        ("memory", {"SKEIN_POOL_SIZE": "0"}, "SKEIN_POOL_SIZE should be at least 1."),
        (
            "memory",
            {"SKEIN_ADVANCED_POOL_TIMEOUT_SECONDS": "nan"},
            "SKEIN_ADVANCED_POOL_TIMEOUT_SECONDS should be a number, not 'nan'.",
        ),
        ("memory", {"SKEIN_DRAIN_SECONDS": "-1"}, "SKEIN_DRAIN_SECONDS should not be below 0."),
        ("memory", {"SKEIN_TRACE_RATIO": "10"}, "SKEIN_TRACE_RATIO should be a share, from 0 to 1."),
        ("memory", {"SKEIN_MASTER_KEY_FILE": "/none"}, "SKEIN_MASTER_KEY_FILE names a file that cannot be read: "),
        ("memory", {"SKEIN_RECALL_ADDRESS": "recall"}, 'SKEIN_RECALL_ADDRESS should be "host:port"'),
        ("memory", {"SKEIN_RECALL_ADDRESS": "ipv4:10.0.0.1"}, 'SKEIN_RECALL_ADDRESS should be "host:port"'),
        ("memory", {"SKEIN_MEMORY_ADDRESS": "m:1"}, "SKEIN_MEMORY_ADDRESS is not used: memory runs in this process."),
        ("memory", {"SKEIN_MEMORY_PORT": "9450"}, "SKEIN_ADMIN_PORT and SKEIN_MEMORY_PORT are both port 9450."),
        ("memory", {"SKEIN_CA_FILE": __file__}, "SKEIN_CA_FILE names a file that contains no certificate."),
        ("auth", {"SKEIN_SYSTEM_KEY": "short"}, "SKEIN_SYSTEM_KEY needs at least 32 characters"),
        ("auth", {"SKEIN_SIGN_UP": "all"}, "SKEIN_SIGN_UP should be one of"),
        ("auth", {"SKEIN_GITHUB_CLIENT_ID": "x"}, "SKEIN_GITHUB_CLIENT_ID and SKEIN_GITHUB_CLIENT_SECRET are needed"),
        ("auth", {"SKEIN_PASSWORD_HASH_THREADS": "0"}, "SKEIN_PASSWORD_HASH_THREADS should be at least 1."),
        ("tenancy", {"SKEIN_SMTP_URL": "x"}, "SKEIN_MAIL_FROM should be an address"),
        ("worker", {"SKEIN_SYSTEM_KEY": "short"}, "SKEIN_SYSTEM_KEY should hold at least 32 characters"),
        ("session", {"SKEIN_SESSION_SUMMARY_URL": "x"}, "SKEIN_SESSION_SUMMARY_URL should be the base of an API"),
        ("recall", {"SKEIN_EMBEDDINGS_API_KEY_X_FILE": "/none"}, "SKEIN_EMBEDDINGS_API_KEY_X_FILE names a file that"),
        ("gateway", {"SKEIN_TLS_KEY": "x"}, "SKEIN_TLS_CERTIFICATE is missing: SKEIN_TLS_KEY alone is no TLS."),
        ("gateway", {"SKEIN_TRUSTED_PROXIES": "x"}, "SKEIN_TRUSTED_PROXIES should be a list of CIDR blocks"),
        ("pc2", {"SECURE_ZMQ": "1"}, "SECURE_ZMQ is on and SKEIN_PC2_CERTIFICATES is not set"),
        ("pc2", {"SKEIN_PC2_HOST": "10.0.0.1"}, "SKEIN_PC2_HOST is 10.0.0.1: the protocol has no passwords"),
        ("pc2", {"SKEIN_PC2_ALLOW": "10.0.0.0/8"}, "SKEIN_PC2_ALLOW has 10.0.0.0/8, wider than /24"),
        ("pc2", {"SKEIN_PC2_5598": "x"}, "SKEIN_PC2_5598 should be events or jarvis"),
        ("pc2", {"SKEIN_PC2_BASE_PORT": "65530"}, "should be a port from 0 to 65535, not 65536."),
    ],
)
def test_a_wrong_setting_is_reported_in_one_sentence(services: str, settings: dict[str, str], message: str) -> None:
    (problem,) = find_problems([services], served(**settings))

    assert message in problem


@over("target", ["dns:///recall:50055", "ipv4:10.0.0.1:50055,10.0.0.2:50055", "ipv6:[::1]:50055"])
def test_a_service_may_be_called_at_all_of_its_replicas(target: str) -> None:
    assert list(find_problems(["memory"], served(SKEIN_RECALL_ADDRESS=target))) == []


def test_both_a_secret_and_its_file_are_one_too_many(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("x" * 40)

    problems = find_problems(["worker"], served(SKEIN_SYSTEM_KEY_FILE=str(file)))

    assert problems == ["SKEIN_SYSTEM_KEY and SKEIN_SYSTEM_KEY_FILE are both set; only SKEIN_SYSTEM_KEY counts."]


def test_a_pair_of_certificate_and_key_that_do_not_fit_is_found(tmp_path: Path) -> None:
    one, other = (made_in(_folder(tmp_path / name)) for name in ("one", "other"))
    settings = {"SKEIN_TLS_CERTIFICATE": str(one.certificate), "SKEIN_TLS_KEY": str(other.key)}

    assert find_problems(["gateway"], served(**settings)) == [
        "SKEIN_TLS_KEY is not the key of the certificate in SKEIN_TLS_CERTIFICATE."
    ]


def test_check_says_everything_that_is_wrong_and_ends_with_3() -> None:
    ended = run("check", "auth", "gateway", SKEIN_POOL_SIZE="x", SKEIN_TLS_KEY="/none", **identity_environment())

    assert ended.exit_code == 3
    assert ended.stdout.splitlines() == [
        "SKEIN_POOL_SIZE should be a whole number, not 'x'.",
        "SKEIN_TLS_CERTIFICATE is missing: SKEIN_TLS_KEY alone is no TLS.",
    ]


@over(
    ("services", "called"),
    [(["memory"], "auth, recall"), (["gateway"], "auth, tenancy, session, memory, recall"), (["pc2"], "")],
)
def test_a_service_that_calls_other_processes_needs_a_certificate(services: list[str], called: str) -> None:
    settings = without_certificates(served())

    problems = find_problems(services, settings)

    assert [each.partition(": ")[2].partition(" in other")[0] for each in problems] == ([called] if called else [])


def test_check_finds_nothing_wrong_with_the_defaults_of_a_cluster_on_one_machine() -> None:
    ended = run("check", "--json")

    assert (ended.exit_code, json.loads(ended.stdout)) == (
        0,
        {"services": [*registry.NAMES], "problems": [], "notes": []},
    )


def test_a_database_that_does_not_answer_is_no_fault_of_the_settings() -> None:
    url = "postgresql://somebody:hidden@127.0.0.1:1/skein"

    ended = run("check", "memory", "--json", SKEIN_DATABASE_URL=url, **identity_environment())

    assert ended.exit_code == 0
    (note,) = json.loads(ended.stdout)["notes"]
    assert note.startswith("The database of SKEIN_DATABASE_URL does not answer")
    assert "hidden" not in ended.output


def test_show_says_where_each_value_is_from_and_shows_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(SYSTEM_KEY)
    settings = {
        "SKEIN_SYSTEM_KEY_FILE": str(file),
        "SKEIN_DATABASE_URL": "postgresql://somebody:hidden@db/skein",
        "SKEIN_OTLP_ENDPOINT": "http://somebody:has/an@and/is/hidden@collector:4317",
        "SKEIN_POOL_SIZE": "7",
        "SKEIN_PC2_API_KEY_5596": "hidden",
    }

    ended = run("show", "worker", "pc2", "--json", **settings)
    table = run("show", "worker", "pc2", **settings)

    assert "hidden" not in ended.output + table.output
    assert SYSTEM_KEY not in ended.output + table.output
    results = {row["name"]: row for row in json.loads(ended.stdout)["settings"]}
    assert results["SKEIN_POOL_SIZE"] == {
        "name": "SKEIN_POOL_SIZE",
        "value": 7,
        "default": 10,
        "source": "environment",
        "secret": False,
    }
    assert (results["SKEIN_SYSTEM_KEY"]["value"], results["SKEIN_SYSTEM_KEY"]["source"]) == (REDACTED, f"file {file}")
    assert results["SKEIN_DATABASE_URL"]["value"] == REDACTED
    assert results["SKEIN_PC2_API_KEY_5596"]["value"] == REDACTED
    assert results["SKEIN_OTLP_ENDPOINT"]["value"] == f"http://{REDACTED}@collector:4317"
    assert results["SKEIN_WORKER_PORT"]["value"] == 50056
    assert results["SKEIN_LOG_LEVEL"]["source"] == ""
    assert "SKEIN_HTTP_PORT" not in results
    assert re.search(r"SKEIN_POOL_SIZE +7 +10 +environment", table.stdout)


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


@pytest.mark.system
@over("services", [(), ("gateway",)])
def test_a_gateway_for_other_machines_that_trusts_no_proxy_is_noted(services: tuple[str, ...]) -> None:
    known = identity_environment()
    ended = run("check", *services, "--json", SKEIN_HOST="192.0.2.1", **known)
    named = run("check", *services, "--json", SKEIN_HOST="192.0.2.1", SKEIN_TRUSTED_PROXIES="10.0.0.0/8", **known)
    alone = run("check", *services, "--json", **known)

    (note,) = [note for note in json.loads(ended.stdout)["notes"] if "SKEIN_TRUSTED_PROXIES" in note]
    assert note.startswith("The gateway listens on 192.0.2.1, and SKEIN_TRUSTED_PROXIES is not set.")
    assert "SKEIN_TRUSTED_PROXIES" not in named.stdout + alone.stdout
    assert (ended.exit_code, named.exit_code, alone.exit_code) == (0, 0, 0)


def test_a_service_that_no_caller_reaches_needs_no_proxy() -> None:
    ended = run("check", "auth", "--json", **{**served(), "SKEIN_HOST": "192.0.2.1"})

    assert "SKEIN_TRUSTED_PROXIES" not in ended.stdout
