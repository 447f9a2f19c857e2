from __future__ import annotations

import json
from pathlib import Path

import pytest
from fix_catalogue import over

from skein_client import NotConfigured
from skein_client.channels import channel_options
from skein_client.connection import Connection


@pytest.fixture
def saved(tmp_path: Path) -> dict[str, str]:
    """An environment whose data folder belongs to a running `skein up`."""
    values = {"endpoint": "127.0.0.1:6", "http": "http://127.0.0.1:7", "api_key": "kept", "tenant_id": "t"}
    (tmp_path / "credentials.json").write_text(json.dumps(values))
    return {"SKEIN_DATA_DIR": str(tmp_path)}


def test_the_environment_names_the_cluster_and_the_key(tmp_path: Path) -> None:
    environment = {"SKEIN_ENDPOINT": "there:1", "SKEIN_API_KEY": "mine", "SKEIN_DATA_DIR": str(tmp_path)}

    result = Connection.from_environment({**environment, "SKEIN_TENANT_ID": "t", "SKEIN_SPACE_ID": "s"})

    assert (result.endpoint, result.api_key, result.tenant_id, result.space_id) == ("there:1", "mine", "t", "s")


def test_the_connection_file_of_skein_up_is_the_default(saved: dict[str, str]) -> None:
    result = Connection.from_environment(saved)

    assert (result.endpoint, result.api_key) == ("127.0.0.1:6", "kept")


def test_a_key_alone_goes_to_the_saved_endpoint(saved: dict[str, str]) -> None:
    result = Connection.from_environment({**saved, "SKEIN_API_KEY": "mine"})

    assert (result.endpoint, result.api_key) == ("127.0.0.1:6", "mine")


def test_the_saved_key_is_never_sent_to_another_cluster(saved: dict[str, str]) -> None:
    with pytest.raises(NotConfigured, match="No key for elsewhere:1"):
        Connection.from_environment({**saved, "SKEIN_ENDPOINT": "elsewhere:1"})


def test_the_saved_key_is_never_sent_to_another_http_address(saved: dict[str, str]) -> None:
    with pytest.raises(NotConfigured, match="No key"):
        Connection.from_environment({**saved, "SKEIN_HTTP_ENDPOINT": "http://elsewhere"})


def test_a_key_may_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("filed\n")

    result = Connection.from_environment(
        {"SKEIN_ENDPOINT": "there:1", "SKEIN_API_KEY_FILE": str(tmp_path / "key"), "SKEIN_DATA_DIR": str(tmp_path)}
    )

    assert result.api_key == "filed"


def test_without_anything_the_error_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NotConfigured, match=r"set SKEIN_API_KEY, or run `skein up`"):
        Connection.from_environment({"SKEIN_DATA_DIR": str(tmp_path)})


def test_damaged_credentials_are_named(tmp_path: Path) -> None:
    (tmp_path / "credentials.json").write_text("{")

    with pytest.raises(NotConfigured, match=r"Cannot read .*credentials\.json"):
        Connection.from_environment({"SKEIN_DATA_DIR": str(tmp_path)})


@over(
    ("endpoint", "target", "secure"),
    [
        ("there:50050", "there:50050", False),
        ("http://there:50050", "there:50050", False),
        ("https://there:443/", "there:443", True),
    ],
)
def test_tls_is_asked_for_with_https(endpoint: str, target: str, secure: bool) -> None:  # noqa: FBT001 - a parameter.
    connection = Connection(endpoint=endpoint, api_key="key")

    assert (connection.target, connection.secure) == (target, secure)


def test_a_key_is_never_printed() -> None:
    assert "secret" not in repr(Connection(endpoint="there:1", api_key="secret"))


@over(
    ("endpoint", "is_local"),
    [
        ("127.0.0.1:1", True),
        ("localhost:1", True),
        ("[::1]:1", True),
        ("http://127.0.0.1:1", True),
        ("skein.example:1", False),
        ("10.0.0.1:1", False),
    ],
)
def test_this_machine_is_reached_without_a_proxy(endpoint: str, *, is_local: bool) -> None:
    results = dict(channel_options(Connection(endpoint=endpoint, api_key="k")))

    assert (results.get("grpc.enable_http_proxy") == 0) == is_local


def test_the_line_break_at_the_end_of_a_key_is_left_out(saved: dict[str, str]) -> None:
    assert Connection.from_environment({**saved, "SKEIN_API_KEY": "mine\n"}).api_key == "mine"


@over("key", ["one\ntwo", "clé"])
def test_a_key_that_cannot_be_sent_is_refused_without_being_told(key: str) -> None:
    with pytest.raises(NotConfigured, match="no key has") as caught:
        Connection(endpoint="there:1", api_key=key)

    assert key not in str(caught.value)
