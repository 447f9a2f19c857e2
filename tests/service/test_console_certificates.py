"""The console's page of certificates: what it says of each erasure, and the files that it offers."""

from __future__ import annotations

import re

import pytest
from fix_cluster import Cluster, Tenant
from fix_console import BrowserSession, furnished
from fix_web import PASSWORD, new_person

from skein.auth.v1 import certificates_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.tenancy.v1 import members_pb2
from skein_kit.erasure_certificates import document, key_set


@pytest.mark.system
async def test_an_erasure_is_told_in_words(web: BrowserSession, tenant: Tenant) -> None:
    await furnished(tenant)
    empty = await web.page("certificates")
    await tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id="clara"))

    page = await web.page("certificates")

    assert "No certificates yet" in empty.text
    assert "published keys" not in empty.text
    assert "A person was forgotten" in page.text
    assert re.search(r'<span class="chip good">complete</span>', page.text)
    assert re.search(r"<code>memory.memories</code></th><td class=\"number\">4<", page.text)
    assert re.search(r"Nothing is left in them from \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC on", page.text)
    assert "unknown: the operator did not state it" in page.text
    assert "clara" not in page.text


@pytest.mark.system
async def test_the_files_are_those_of_the_command_and_verify(web: BrowserSession, tenant: Tenant) -> None:
    await furnished(tenant)
    certificate_id = (await tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id="clara"))).certificate_id

    page = await web.page("certificates")
    link, keys_link = re.findall(r'href="([^"]+)" download', page.text)
    file, keys = await web.client.get(link), await web.client.get(keys_link)

    request = certificates_pb2.GetErasureCertificateRequest(certificate_id=certificate_id)
    certificate = (await tenant.auth.GetErasureCertificate(request)).certificate
    assert file.content == certificate.document.encode()
    assert file.headers["content-disposition"] == f'attachment; filename="{certificate_id}.json"'
    assert keys.headers["content-disposition"] == 'attachment; filename="certificate-keys.json"'
    assert {answer.headers["content-type"] for answer in (file, keys)} == {"application/json"}
    assert {answer.headers["cache-control"] for answer in (file, keys)} == {"no-store"}
    statement = document.verify(file.content, key_set.read(keys.text)).statement
    assert (statement["kind"], statement["deleted_counts"]["memory.memories"]) == ("forget", 4)


async def test_an_interrupted_erasure_says_that_data_may_remain(web: BrowserSession, tenant: Tenant) -> None:
    memories = [memory_pb2.Memory(content=f"milk {n}", subject_id="ben") for n in range(3)]
    await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))
    selection = memory_pb2.MemorySelection(filter=memory_pb2.MemoryFilter(subject_id="ben"))
    page_request = memory_pb2.PurgeMemoriesRequest(selection=selection, page_size=1)
    await tenant.memory.PurgeMemories(page_request)

    page = await web.page("certificates")

    assert "Memories were purged" in page.text
    assert '<span class="chip bad">incomplete</span>' in page.text
    assert "data may remain" in page.text


@pytest.mark.system
async def test_a_role_without_the_permission_sees_no_certificate(
    cluster: Cluster, web: BrowserSession, tenant: Tenant
) -> None:
    await furnished(tenant)
    forgotten = await tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id="clara"))
    person = await new_person(cluster, tenant, role=members_pb2.ROLE_MEMBER)
    web.client.cookies.clear()
    await web.sign_in(person.email, PASSWORD)

    page, file = await web.page("certificates"), await web.page("certificate", id=forgotten.certificate_id)

    assert (page.status_code, file.status_code) == (403, 403)
    assert "need the permission audit.read" in page.text
    assert "content-disposition" not in file.headers


async def test_an_unknown_certificate_is_a_page_that_says_so(web: BrowserSession) -> None:
    page = await web.page("certificate", id="0198c0de-0000-7000-8000-000000000000")
    invalid = await web.page("certificate", id="nonsense")

    assert (page.status_code, "This certificate does not exist in this tenant" in page.text) == (404, True)
    assert (invalid.status_code, "certificate_id" in invalid.text) == (400, True)
    assert "content-disposition" not in page.headers
