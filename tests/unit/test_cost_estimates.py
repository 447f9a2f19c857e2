"""What a call will probably cost."""

from __future__ import annotations

from skein_kit.admission.fair_queue import COSTLY
from skein_kit.admission.overload import CostEstimates

PATH, OTHER_PATH = "/skein.memory.v1.MemoryService/ListMemories", "/skein.memory.v1.MemoryService/GetMemory"
MEBIBYTE = 1024 * 1024


def test_a_call_of_which_nothing_is_known_costs_what_its_size_says() -> None:
    estimates = CostEstimates()

    assert estimates.expect(PATH, "one", 100) < COSTLY < estimates.expect(PATH, "one", MEBIBYTE)


def test_one_dear_call_makes_the_next_one_costly_until_several_cheap_ones() -> None:
    estimates = CostEstimates()
    for _ in range(10):
        estimates.observe(PATH, "one", 100, 0.001)

    estimates.observe(PATH, "one", 100, 1.0)
    after_one = estimates.expect(PATH, "one", 100)
    for _ in range(30):
        estimates.observe(PATH, "one", 100, 0.001)

    assert after_one > COSTLY > estimates.expect(PATH, "one", 100)


def test_tenants_methods_and_sizes_have_estimates_of_their_own() -> None:
    estimates = CostEstimates()
    for _ in range(30):
        estimates.observe(PATH, "two", 100, 0.001)

    estimates.observe(PATH, "one", 100, 1.0)

    assert estimates.expect(PATH, "one", 100) > COSTLY
    assert estimates.expect(PATH, "two", 100) < COSTLY
    assert estimates.expect(OTHER_PATH, "one", 100) < COSTLY


def test_a_tenant_without_calls_gets_the_estimate_of_all() -> None:
    estimates = CostEstimates()

    estimates.observe(PATH, "one", 100, 1.0)

    assert estimates.expect(PATH, "new", 100) > COSTLY


def test_the_first_call_of_a_process_which_fills_caches_makes_no_cheap_method_costly() -> None:
    estimates = CostEstimates()

    estimates.observe(PATH, "one", 100, 0.07)

    assert estimates.expect(PATH, "one", 100) < COSTLY
    assert estimates.expect(PATH, "new", 100) < COSTLY
    estimates.observe(PATH, "one", 100, 0.07)
    assert estimates.expect(PATH, "one", 100) > COSTLY
