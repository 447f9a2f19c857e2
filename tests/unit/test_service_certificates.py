"""The certificates of services: who signs them, when they are replaced, and what a process is given."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from click.testing import CliRunner
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from fix_catalogue import over

from skein_cluster import registry
from skein_cluster.main import skein
from skein_cluster.service_certificates import authority
from skein_kit.identity.service_identity import certificate_name, services_of
from skein_kit.settings import ProcessSettings
from skein_kit.tls.mutual_tls import MutualTlsFiles

NOW = datetime(2030, 1, 1, tzinfo=UTC)
PROCESSES = {"auth": ["auth"], "both": ["memory", "recall"]}


def shown(folder: Path, process: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / process / "tls.crt").read_bytes())


def trusted(folder: Path, process: str) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates((folder / process / "ca.crt").read_bytes())


def signer(folder: Path, process: str) -> int:
    """Return the position, among the authorities that a process trusts, of the one that signed its certificate."""
    for number, each in enumerate(trusted(folder, process)):
        try:
            shown(folder, process).verify_directly_issued_by(each)
        except (InvalidSignature, ValueError):
            continue
        return number
    raise AssertionError


def test_a_certificate_names_the_services_of_its_process_and_no_host(tmp_path: Path) -> None:
    authority.issue(tmp_path, PROCESSES, at=NOW)

    names = shown(tmp_path, "both").extensions.get_extension_for_class(x509.SubjectAlternativeName).value

    assert names.get_values_for_type(x509.DNSName) == ["memory.skein.internal", "recall.skein.internal"]
    assert not names.get_values_for_type(x509.IPAddress)
    assert signer(tmp_path, "both") == 0


def test_repeating_the_command_replaces_nothing_that_is_new(tmp_path: Path) -> None:
    authority.issue(tmp_path, PROCESSES, at=NOW)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}

    authority.issue(tmp_path, PROCESSES, at=NOW + timedelta(days=90))

    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before


def test_a_certificate_is_replaced_after_a_third_of_its_life_and_when_its_services_change(tmp_path: Path) -> None:
    authority.issue(tmp_path, PROCESSES, at=NOW)
    first = shown(tmp_path, "auth")

    authority.issue(tmp_path, PROCESSES, at=NOW + timedelta(days=130))
    second = shown(tmp_path, "auth")
    authority.issue(tmp_path, {"auth": ["auth", "tenancy"]}, at=NOW + timedelta(days=130))

    assert len({first.serial_number, second.serial_number, shown(tmp_path, "auth").serial_number}) == 3
    assert signer(tmp_path, "auth") == 0


def test_a_new_authority_is_trusted_for_an_hour_before_it_signs(tmp_path: Path) -> None:
    authority.issue(tmp_path, PROCESSES, at=NOW)
    late = NOW + timedelta(days=6 * 365)

    authority.issue(tmp_path, PROCESSES, at=late)
    at_first = (len(trusted(tmp_path, "auth")), signer(tmp_path, "auth"))
    authority.issue(tmp_path, PROCESSES, at=late + timedelta(hours=2))
    then = (len(trusted(tmp_path, "auth")), signer(tmp_path, "auth"))
    authority.issue(tmp_path, PROCESSES, at=NOW + timedelta(days=10 * 365 + 10))
    at_last = (len(trusted(tmp_path, "auth")), signer(tmp_path, "auth"))

    assert (at_first, then, at_last) == ((2, 0), (2, 1), (1, 0))


def test_the_command_makes_files_that_each_service_can_use(tmp_path: Path) -> None:
    folder = tmp_path / "mtls"

    ended = CliRunner().invoke(skein, ["mtls", "certificates", str(folder)])

    assert ended.exit_code == 0, ended.output
    assert ended.output.splitlines() == [str(folder / name) for name in registry.NAMES]
    for name in registry.NAMES:
        assert MutualTlsFiles.from_settings(ProcessSettings.read(authority.settings(folder, name))) is not None


@over(
    ("names", "services"),
    [
        ([], set()),
        ([b"127.0.0.1", b"auth.example.com", b"skein.internal"], set()),
        ([certificate_name("auth").encode(), b"127.0.0.1"], {"auth"}),
        ([b"auth.skein.internal.example.com", b"\xff.skein.internal"], {"\ufffd"}),
    ],
)
def test_only_names_of_services_are_taken_for_services(names: list[bytes], services: set[str]) -> None:
    assert services_of({"x509_subject_alternative_name": names}) == services
