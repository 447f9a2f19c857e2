from __future__ import annotations

import re

from fix_cluster import Cluster, Tenant, test_environment
from fix_command import skein

from skein_cluster.cli.exit_codes import ExitCode


async def test_a_ledger_continues_a_context_from_a_revision(cluster: Cluster, tenant: Tenant) -> None:
    environment = {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}
    question = ("context", "what does Anna drink?")
    await skein("remember", "Anna drinks green tea.", environment=environment)

    first = await skein(*question, "--ledger", "talk", "0", "--json", environment=environment)
    revision = first.json["ledger_revision"]
    await skein("remember", "Anna drinks no coffee.", environment=environment)
    second = await skein(*question, "--ledger", "talk", revision, environment=environment)
    refused = await skein(*question, "--ledger", "talk", revision, environment=environment)

    assert first.json["rebase"] == "REBASE_REASON_REQUESTED"
    assert "green tea" in first.json["text"]
    assert "[2] " in second.out
    assert "green tea" not in second.out
    assert re.search(r"Ledger revision \d+, append\.", second.err)
    assert refused.code != ExitCode.OK
    assert "Another turn of the ledger came first" in refused.err
