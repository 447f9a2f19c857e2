"""What the metric tells of when certificates end."""

from __future__ import annotations

from pathlib import Path

from cryptography import x509
from fix_metrics import sample
from fix_tls import Certificates, made_in

from skein_kit.tls.mutual_tls import MutualTlsFiles
from skein_kit.tls.server_tls import ServerTls


def shown(use: str) -> float | None:
    return sample("skein_certificate_expiry_timestamp_seconds", use=use)


def end(path: Path) -> float:
    return x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc.timestamp()


def certificates(folder: Path, *, days: int) -> Certificates:
    folder.mkdir()
    return made_in(folder, days=days)


def test_the_gateway_s_is_the_one_that_it_serves_with(tmp_path: Path) -> None:
    files = certificates(tmp_path / "one", days=5)
    tls = ServerTls.read(files.certificate, files.key)
    assert tls is not None

    tls.credentials()

    assert shown("tls") == end(files.certificate)


def test_the_first_certificate_of_a_file_to_end_counts(tmp_path: Path) -> None:
    files = certificates(tmp_path / "one", days=20)
    above = certificates(tmp_path / "two", days=3)
    files.certificate.write_bytes(files.certificate.read_bytes() + above.certificate.read_bytes())
    tls = ServerTls.read(files.certificate, files.key)
    assert tls is not None

    tls.credentials()

    assert shown("tls") == end(above.certificate)


def test_certificate_metrics_follow_changed_files(tmp_path: Path) -> None:
    files, clock = certificates(tmp_path / "one", days=2), [0.0]
    mutual = MutualTlsFiles(files.certificate, files.key, files.authority, clock=lambda: clock[0])
    before = shown("mtls"), shown("mtls_authority")
    old = end(files.certificate), end(files.authority)

    again = made_in(tmp_path / "one", days=90)
    clock[0] += 10
    assert mutual.material.certificate == again.certificate.read_bytes()

    assert before == old
    assert (shown("mtls"), shown("mtls_authority")) == (end(again.certificate), end(again.authority))


def test_while_one_authority_takes_another_s_place_the_one_in_use_counts(tmp_path: Path) -> None:
    old, new = certificates(tmp_path / "old", days=1), certificates(tmp_path / "new", days=90)
    both = tmp_path / "both.pem"
    both.write_bytes(old.authority.read_bytes() + new.authority.read_bytes())

    readings = []
    for files in (old, new):
        MutualTlsFiles(files.certificate, files.key, both)
        readings.append(shown("mtls_authority"))

    assert readings == [end(old.authority), end(new.authority)]
