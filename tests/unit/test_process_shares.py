"""What each of several processes of one machine gets."""

from __future__ import annotations

import pytest
from fix_catalogue import over

from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.processes.shared_ports import check_connections, divided_settings


@over(("processes", "pool_size"), [(1, 10), (2, 10), (3, 10), (4, 7), (8, 3)])
def test_pools_that_fit_are_accepted(processes: int, pool_size: int) -> None:
    check_connections(processes, pool_size)


def test_pools_that_do_not_fit_are_refused_with_the_size_that_does() -> None:
    with pytest.raises(CommandError, match=r"SKEIN_POOL_SIZE to (\d+) or less") as refused:
        check_connections(4, 10)

    size = int(str(refused.value).partition("SKEIN_POOL_SIZE to ")[2].split()[0])
    check_connections(4, size)
    with pytest.raises(CommandError):
        check_connections(4, size + 1)
    assert refused.value.exit_code == ExitCode.CANNOT_START


def test_a_number_that_fits_with_no_pool_is_refused() -> None:
    with pytest.raises(CommandError, match=r"Run fewer processes\.$"):
        check_connections(64, 10)


def test_memory_and_threads_are_divided() -> None:
    settings = divided_settings({"SKEIN_RECALL_CACHE_MEGABYTES": "100", "SKEIN_RECALL_EMBEDDER_THREADS": "5"}, 2)

    assert settings["SKEIN_RECALL_CACHE_MEGABYTES"] == "50"
    assert settings["SKEIN_RECALL_EMBEDDER_THREADS"] == "2"
    assert settings["SKEIN_RECALL_EMBEDDER_BULK_THREADS"] == "2"
    assert settings["SKEIN_PASSWORD_HASH_THREADS"] == "1"


def test_no_cache_stays_no_cache_and_every_process_keeps_a_thread() -> None:
    settings = divided_settings({"SKEIN_RECALL_CACHE_MEGABYTES": "0"}, 3)

    assert settings["SKEIN_RECALL_CACHE_MEGABYTES"] == "0"
    assert settings["SKEIN_RECALL_EMBEDDER_THREADS"] == "1"
