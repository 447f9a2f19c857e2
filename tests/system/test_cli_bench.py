from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fix_cluster import Cluster, Tenant, test_environment
from fix_command import skein
from fix_language_model import COMPLETION_TOKENS, PROMPT_TOKENS, Reply, running_language_model

from skein.memory.v1 import memory_pb2
from skein.tenancy.v1 import tenancy_pb2
from skein_cluster.cli.exit_codes import ExitCode

MEASURES = {"recall@5", "recall@10", "recall@25", "mrr"}


def turns(session: int, *lines: tuple[str, str]) -> list[dict[str, str]]:
    return [
        {"speaker": speaker, "dia_id": f"D{session}:{place}", "text": text}
        for place, (speaker, text) in enumerate(lines, start=1)
    ]


def conversation(name: str, *, questions: list[dict[str, Any]]) -> dict[str, Any]:
    """Return two people, two sessions, and more turns than vectors are made of at once."""
    weather = [(("Ruth", "Kemal")[number % 2], f"It rained on day {number} of the trip.") for number in range(20)]
    return {
        "sample_id": name,
        "conversation": {
            "speaker_a": "Ruth",
            "speaker_b": "Kemal",
            "session_1_date_time": "1:56 pm on 8 May, 2024",
            "session_1": turns(1, ("Ruth", "My sail tore in the storm."), ("Kemal", "I adopted a grey parrot.")),
            "session_2_date_time": "9:00 am on 3 June, 2024",
            "session_2": turns(2, *weather),
        },
        "qa": questions,
    }


@pytest.fixture
def operator(cluster: Cluster) -> dict[str, str]:
    return {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_OPERATOR_KEY": cluster.operator_key}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    requests = [
        {"question": "What happened to Ruth's sail?", "answer": "It tore", "evidence": ["D1:1"], "category": 4},
        {"question": "Which animal did Kemal adopt?", "answer": "A parrot", "evidence": ["D1:2"], "category": 1},
        {"question": "Who went to the moon?", "adversarial_answer": "Ruth", "evidence": [], "category": 5},
    ]
    path = tmp_path / "people.json"
    path.write_text(json.dumps([conversation("one", questions=requests), conversation("two", questions=requests[:1])]))
    return path


async def test_turns_may_be_messages_whose_speakers_are_found(
    cluster: Cluster, operator: dict[str, str], file: Path
) -> None:
    assert cluster
    ended = await skein(
        "bench", "locomo", str(file), "--form", "messages", "--no-ablation", "--json", environment=operator
    )

    assert ended.code == ExitCode.OK, ended.err
    assert (ended.json["form"], ended.json["messages"], ended.json["degraded_answers"]) == ("messages", 44, 0)
    assert ended.json["overall"]["recall@10"]["value"] == 1.0


async def tenants(cluster: Cluster) -> set[str]:
    request = tenancy_pb2.ListTenantsRequest(page_size=1000)
    listed = await cluster.operator.tenancy.ListTenants(request)
    return {tenant.tenant_id for tenant in listed.tenants}


async def test_every_question_is_asked_and_its_evidence_counted(
    cluster: Cluster, operator: dict[str, str], file: Path
) -> None:
    before = await tenants(cluster)
    ended = await skein("bench", "locomo", str(file), "--json", environment=operator)
    payload = ended.json

    assert ended.code == ExitCode.OK, ended.err
    assert (payload["file"], payload["memories"], payload["degraded_answers"]) == ("people.json", 44, 0)
    assert payload["overall"]["questions"] == 4
    assert payload["overall"].keys() == {"questions", *MEASURES}
    assert {name: part["questions"] for name, part in payload["categories"].items()} == {
        "single-hop": 2,
        "multi-hop": 1,
        "adversarial": 1,
    }
    assert payload["categories"]["single-hop"]["recall@5"] == {"value": 1.0, "low": 1.0, "high": 1.0}
    assert [part["name"] for part in payload["conversations"]] == ["one", "two"]
    assert 0 < payload["latency_ms"]["p50"] <= payload["latency_ms"]["p95"]
    assert await tenants(cluster) == before


async def test_each_signal_is_switched_off_in_turn(operator: dict[str, str], file: Path) -> None:
    ended = await skein("bench", "locomo", str(file), "--conversations", "1", "--json", environment=operator)
    payload = ended.json

    assert len(payload["conversations"]) == 1
    assert {"dense", "lexical"} <= payload["ablation"].keys()
    assert all(part.keys() == MEASURES for part in payload["ablation"].values())


async def test_a_person_gets_tables(cluster: Cluster, operator: dict[str, str], file: Path) -> None:
    before = await tenants(cluster)
    ended = await skein(
        "bench", "locomo", str(file), "--conversations", "1", "--no-ablation", "--keep", environment=operator
    )
    remaining = await tenants(cluster) - before

    assert ended.code == ExitCode.OK, ended.err
    assert all(word in ended.out for word in ("single-hop", "recall@10", "mrr", "all", "p95"))
    assert "Lost without a signal" not in ended.out
    assert len(remaining) == 1


async def test_a_file_of_another_kind_is_refused_before_anything_is_made(
    operator: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "other.json"
    path.write_text('[{"something": "else"}]')

    ended = await skein("bench", "locomo", str(path), environment=operator)

    assert ended.code == ExitCode.REFUSED
    assert "LoCoMo" in ended.err


def haystack(question_id: str, question: str, *gold: int) -> dict[str, Any]:
    """Return a question in LongMemEval's format; the answering sessions are named by their places."""
    texts = [
        [("user", "Which wool suits a beginner?"), ("assistant", "Merino, in a light colour.")],
        [("user", "I adopted a grey parrot called Pim."), ("assistant", "Parrots need company."), ("user", " ")],
        [("user", "The ferry to Texel was late again."), ("assistant", "Storms delay it in autumn.")],
        [("user", "My parrot bit the postman."), ("assistant", "Is the postman well?")],
    ]
    names = [f"{question_id}-{place}" for place in range(len(texts))]
    return {
        "question_id": question_id,
        "question_type": "single-session-user",
        "question": question,
        "answer": "unused",
        "question_date": "2023/06/01 (Thu) 10:00",
        "haystack_session_ids": names,
        "haystack_dates": [f"2023/05/2{place} (Sat) 02:21" for place in range(len(texts))],
        "haystack_sessions": [
            [{"role": role, "content": text, "has_answer": place in gold} for role, text in turns]
            for place, turns in enumerate(texts)
        ],
        "answer_session_ids": [names[place] for place in gold],
    }


@pytest.fixture
def haystacks(tmp_path: Path) -> Path:
    path = tmp_path / "haystacks.json"
    questions = [
        haystack("pet", "What did Pim, my grey parrot, do to the postman?", 1, 3),
        haystack("boat", "Why is the ferry to Texel late?", 2),
        haystack("car_abs", "zzqx vvkw", 0),
    ]
    path.write_text(json.dumps(questions))
    return path


async def test_the_sessions_that_answer_are_found_in_a_haystack_for_each_question(
    cluster: Cluster, operator: dict[str, str], haystacks: Path
) -> None:
    before = await tenants(cluster)
    ended = await skein("bench", "longmemeval", str(haystacks), "--json", environment=operator)
    report = ended.json

    assert ended.code == ExitCode.OK, ended.err
    assert (report["file"], report["messages"], report["degraded_answers"]) == ("haystacks.json", 24, 0)
    assert report["overall"].keys() == {"questions", "recall_any@5", "recall_any@10", "recall_all@5", "recall_all@10"}
    assert (report["overall"]["questions"], report["overall"]["recall_all@5"]["value"]) == (2, 1.0)
    assert report["categories"]["single-session-user"]["questions"] == 2
    answers = {one["id"]: one for one in report["answers"]}
    # The question that nothing answers counts apart, by its silence.
    assert answers["car_abs"]["expected_ids"] == []
    assert report["unanswerable"] == {"questions": 1, "with_hits": int(bool(answers["car_abs"]["hit_ids"]))}
    assert answers["pet"]["expected_ids"] == ["pet-1", "pet-3"]
    # Several hits of a session count once.
    assert set(answers["pet"]["hit_ids"][:2]) == {"pet-1", "pet-3"}
    assert answers["boat"]["hit_ids"][0] == "boat-2"
    assert await tenants(cluster) == before


async def test_a_sample_of_the_haystacks_is_the_same_at_each_run(operator: dict[str, str], haystacks: Path) -> None:
    arguments = ("bench", "longmemeval", str(haystacks), "--sample", "1", "--limit", "1")
    first = await skein(*arguments, "--json", environment=operator)
    table = await skein(*arguments, environment=operator)

    assert (first.code, table.code) == (ExitCode.OK, ExitCode.OK), first.err + table.err
    (answer,) = first.json["answers"]
    assert len(answer["hit_ids"]) <= 1
    assert "8 messages in 1 tenants" in table.out
    assert (answer["category"] in table.out) == (answer["id"] != "car_abs")


async def test_a_haystack_at_fault_is_refused_before_anything_is_made(
    cluster: Cluster, operator: dict[str, str], haystacks: Path
) -> None:
    before = await tenants(cluster)
    questions = json.loads(haystacks.read_text())
    questions[2] = haystack("bird", "Which bird?", 1) | {"answer_session_ids": ["elsewhere"]}
    haystacks.write_text(json.dumps(questions))

    ended = await skein("bench", "longmemeval", str(haystacks), environment=operator)

    assert ended.code == ExitCode.REFUSED
    assert "entry 3 is no question of LongMemEval (ValueError: bird has no session elsewhere)" in ended.err
    assert await tenants(cluster) == before


@pytest.fixture
def beam(tmp_path: Path) -> Path:
    """Return one size of BEAM with one chat of two batches."""
    said = ["My boat is moored at pier 4.", "Noted.", "I never eat fish.", "My boat is moored at pier 9 now."]
    turns_of = [
        {"role": ("user", "assistant")[number == 1], "id": number, "content": text} for number, text in enumerate(said)
    ]
    turns_of[0]["time_anchor"] = "March-15-2024"
    probing = {
        "knowledge_update": [
            {
                "question": "Where is my boat?",
                "answer": "Pier 9",
                "source_chat_ids": {"a": [0], "b": [3]},
                "rubric": ["9"],
            }
        ],
        "abstention": [{"question": "Who flew?", "ideal_response": "It was not said.", "rubric": ["none", "said so"]}],
    }
    folder = tmp_path / "100K" / "1"
    (folder / "probing_questions").mkdir(parents=True)
    batches = [{"batch_number": number, "turns": [turns_of[2 * number - 2 : 2 * number]]} for number in (1, 2)]
    (folder / "chat.json").write_text(json.dumps(batches))
    (folder / "probing_questions/probing_questions.json").write_text(json.dumps(probing))
    return folder.parent


async def test_the_source_messages_of_beam_are_found_and_its_answers_judged_by_its_prompts(
    cluster: Cluster, operator: dict[str, str], beam: Path, tmp_path: Path
) -> None:
    before = await tenants(cluster)
    prompts = tmp_path / "prompts.toml"
    prompts.write_text('answer = "{context} {question}"\n[judge]\ndefault = "J {rubric}"\nabstention = "A {rubric}"')
    async with running_language_model() as model:
        model.says("J 9", Reply('{"score": 0.5}'))
        model.says("A none", Reply("yes"))
        model.says("A said so", Reply("maybe"))
        ended = await skein(
            *("bench", "beam", str(beam), "--prompts", str(prompts), "--endpoint", model.url, "--model", "m", "--json"),
            environment=operator,
        )
    report = ended.json

    assert ended.code == ExitCode.OK, ended.err
    assert (report["file"], report["messages"], report["haystacks"]) == ("100K", 4, 1)
    assert report["overall"]["questions"] == report["unanswerable"]["questions"] == 1
    assert report["overall"]["recall@5"]["value"] == 1.0
    judged = report["judged"]
    assert judged["categories"]["knowledge_update"]["score"]["value"] == 0.5
    answered = [request for request in model.messages if request.endswith(" Where is my boat?")]
    assert "moored at pier 9" in answered[0]
    # Words that are no verdict count in no mean.
    assert (judged["overall"]["questions"], judged["failures"]) == (1, ["no verdict"])
    # One call answers each question, and one judges each item of its rubric; the third was no verdict.
    both = PROMPT_TOKENS + COMPLETION_TOKENS
    assert (judged["tokens_per_question"]["answer"], judged["tokens_per_question"]["judge"]) == (both, both * 3 / 2)
    assert await tenants(cluster) == before


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    lines: list[dict[str, Any]] = [
        *(
            {"kind": "message", "id": f"m{number}", "session_id": "trip", "role": "user", "name": name, "content": text}
            for number, (name, text) in enumerate([("Ruth", "My sail tore."), ("Kemal", "I adopted a grey parrot.")])
        ),
        {"kind": "memory", "id": "n1", "content": "Kemal is allergic to nuts.", "create_time": "2024-05-08T13:56:00Z"},
        {"kind": "memory", "id": "n1", "content": "Mona collects stamps.", "tags": ["hobby"], "group": "mona"},
        {"kind": "question", "id": "q1", "query": "What tore?", "expected_ids": ["m0"], "category": "said"},
        {"kind": "question", "id": "q2", "query": "What may Kemal not eat?", "expected_ids": ["n1"]},
        {"kind": "question", "id": "q3", "query": "Who flew to the moon?", "expected_ids": []},
        {"kind": "question", "id": "q1", "query": "What does Mona collect?", "expected_ids": ["n1"], "group": "mona"},
    ]
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


async def test_a_corpus_is_asked_group_by_group(cluster: Cluster, operator: dict[str, str], corpus: Path) -> None:
    before = await tenants(cluster)
    ended = await skein(
        "bench", "corpus", str(corpus), "--limit", "10", "--min-relevance", "0", "--json", environment=operator
    )
    told = ended.json

    assert ended.code == ExitCode.OK, ended.err
    assert (told["file"], told["memories"], told["messages"]) == ("corpus.jsonl", 2, 2)
    assert (told["limit"], told["degraded_answers"]) == (10, 0)
    # The question without an answer counts apart, and no measure is deeper than an answer.
    assert told["overall"].keys() == {"questions", "recall@5", "recall@10", "mrr", "ndcg@5", "ndcg@10"}
    assert (told["overall"]["questions"], told["overall"]["recall@5"]["value"]) == (3, 1.0)
    assert {name: part["questions"] for name, part in told["categories"].items()} == {"other": 2, "said": 1}
    assert [(part["name"], part["questions"]) for part in told["groups"]] == [("default", 2), ("mona", 1)]
    assert told["unanswerable"]["questions"] == told["unanswerable"]["with_hits"] == 1
    assert 0 < told["unanswerable"]["mean_best_score"] < told["mean_best_score"] < 1
    # Messages and memories are asked together, and a group finds its own items alone.
    assert [(one["group"], one["id"]) for one in told["answers"]] == [
        ("default", "q1"), ("default", "q2"), ("default", "q3"), ("mona", "q1"),
    ]  # fmt: skip
    assert {name for one in told["answers"][:3] for name in one["hit_ids"]} == {"m0", "m1", "n1"}
    assert told["answers"][3]["hit_ids"] == ["n1"]
    assert await tenants(cluster) == before


async def test_a_person_gets_the_tables_of_a_corpus(operator: dict[str, str], corpus: Path) -> None:
    ended = await skein("bench", "corpus", str(corpus), environment=operator)

    assert ended.code == ExitCode.OK, ended.err
    words = ("said", "recall@20", "mrr", "ndcg@10", "Without an answer: 1", "2 memories and 2 messages in 2 tenants")
    assert [word for word in words if word not in ended.out] == []


async def test_a_corpus_at_fault_is_refused_with_a_line_that_works(operator: dict[str, str], corpus: Path) -> None:
    corpus.write_text('{"kind": "memory", "id": "x", "text": "tea"}')

    ended = await skein("bench", "corpus", str(corpus), environment=operator)

    assert ended.code == ExitCode.REFUSED
    assert "Line 1: text: no such field in a memory" in ended.err
    assert '{"kind": "memory", "id": "m2", "content": "Ann drinks tea."}' in ended.err


@pytest.fixture
def beliefs(tmp_path: Path) -> Path:
    asked: dict[str, Any] = {"kind": "question", "exact": True, "expected_ids": []}
    lines: list[dict[str, Any]] = [
        {"kind": "memory", "id": "old", "content": "Releases go out on Fridays."},
        {"kind": "memory", "id": "new", "content": "Releases go out on Tuesdays.", "supersedes": "old"},
        {"kind": "memory", "id": "alias", "content": "Shipping day", "alias_of": "new"},
        {"kind": "memory", "id": "a", "content": "Write in German.", "scope": "agent", "agent_id": "a"},
        {"kind": "memory", "id": "b", "content": "Write in English.", "scope": "agent", "agent_id": "b"},
        {"kind": "memory", "id": "past", "content": "The test host is down.", "valid_to_time": "2025-02-01T00:00:00Z"},
        {**asked, "id": "day", "query": "When do releases go out?", "expected_ids": ["new"], "agent_id": "nobody"},
        {**asked, "id": "language", "query": "What should I write in?", "expected_ids": ["a", "new"], "agent_id": "a"},
        {**asked, "id": "host", "query": "Is the test host down?", "agent_id": "nobody", "category": "none"},
        {
            **asked, "id": "then", "query": "Was the test host down?", "expected_ids": ["past"],
            "agent_id": "nobody", "valid_at_time": "2025-01-15T00:00:00Z",
        },
    ]  # fmt: skip
    path = tmp_path / "beliefs.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


async def test_exact_questions_count_what_comes_back_beside_the_expected(
    operator: dict[str, str], beliefs: Path
) -> None:
    ended = await skein("bench", "corpus", str(beliefs), "--min-relevance", "0", "--json", environment=operator)
    report = ended.json

    assert ended.code == ExitCode.OK, ended.err
    answers = {one["id"]: one for one in report["answers"]}
    # Neither what another memory supersedes, nor another agent's, nor what is no longer valid; and an alias does not
    # count against its memory.
    assert set(answers["day"]["hit_ids"]) == {"new", "alias"}
    assert set(answers["language"]["hit_ids"]) == {"a", "new", "alias"}
    assert "past" not in answers["host"]["hit_ids"]
    assert answers["then"]["hit_ids"][0] == "past"
    assert {name: one["is_exact"] for name, one in answers.items()} == {
        "day": True, "language": True, "host": False, "then": False,
    }  # fmt: skip
    assert [hit["id"] for hit in answers["day"]["hits"]] == answers["day"]["hit_ids"]
    assert all(0 < hit["relevance"] < 1 for one in report["answers"] for hit in one["hits"])
    exact = report["exact"]
    assert (exact["overall"]["questions"], exact["overall"]["exact"], exact["overall"]["recall"]) == (4, 2, 1.0)
    assert exact["categories"]["none"] == {
        "questions": 1, "exact": 0, "precision": 0.0, "recall": None, "mean_hits": len(answers["host"]["hit_ids"]),
        "abstention": 0.0,
    }  # fmt: skip
    # Cuts leave the first hits.
    assert {cut["measure"] for cut in exact["cuts"]} == {"relevance", "relevance share", "score share"}
    assert all(cut["mean_hits"] <= exact["overall"]["mean_hits"] for cut in exact["cuts"])


async def test_a_corpus_may_be_asked_with_a_cut(operator: dict[str, str], beliefs: Path) -> None:
    ended = await skein("bench", "corpus", str(beliefs), "--min-relevance", "1", "--json", environment=operator)

    assert ended.json["min_relevance"] == 1.0
    assert all(one["hits"] == [] for one in ended.json["answers"])
    assert (ended.json["exact"]["overall"]["exact"], ended.json["exact"]["overall"]["recall"]) == (1, 0.0)


async def test_a_person_gets_the_tables_of_exact_questions(operator: dict[str, str], beliefs: Path) -> None:
    ended = await skein("bench", "corpus", str(beliefs), environment=operator)

    assert ended.code == ExitCode.OK, ended.err
    words = ("Exact questions", "precision", "mean hits", "above a cut", "relevance 0.02", "score share 0.8")
    assert [word for word in words if word not in ended.out] == []


@pytest.fixture
async def own(cluster: Cluster, tenant: Tenant, tmp_path: Path) -> tuple[dict[str, str], Path]:
    """A tenant that holds some items already, and questions on them."""
    stored = await tenant.memory.BatchCreateMemories(
        memory_pb2.BatchCreateMemoriesRequest(
            memories=[
                memory_pb2.Memory(content="Kemal is allergic to nuts."),
                memory_pb2.Memory(content="Mona collects stamps.", external_id="crm-7"),
            ]
        )
    )
    lines: list[dict[str, Any]] = [
        {"query": "What is Kemal allergic to?", "expected_ids": [stored.memories[0].memory_id]},
        {"query": "What does Mona collect?", "expected_ids": ["crm-7", "crm-8"], "category": "hobby"},
        {"query": "zzqx vvkw", "expected_ids": [], "exact": True, "id": "nonsense"},
    ]
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}, path


async def test_a_tenant_s_own_questions_are_asked_where_its_items_are(
    cluster: Cluster, own: tuple[dict[str, str], Path], tmp_path: Path
) -> None:
    environment, path = own
    before = await tenants(cluster)

    ended = await skein(
        "bench", "questions", str(path), "--min-relevance", "0.9", "--plot", str(tmp_path / "plot.svg"), "--json",
        environment=environment,
    )  # fmt: skip
    report = ended.json

    assert ended.code == ExitCode.OK, ended.err
    assert {name: part["questions"] for name, part in report["categories"].items()} == {"hobby": 1, "other": 1}
    assert [one["id"] for one in report["answers"]] == ["1", "2", "nonsense"]
    assert report["never_found_ids"] == ["crm-8"]
    assert report["unanswerable"] == {"questions": 1, "with_hits": 0, "mean_best_score": 0.0}
    assert report["exact"]["overall"]["exact"] == 1
    assert report["whole_answers"]["abstention"] == 1.0
    curve = report["curve"]
    assert (curve[0]["min_relevance"], curve[0]["recall"]) == (0, 0.75)
    assert [point["mean_hits"] for point in curve] == sorted((point["mean_hits"] for point in curve), reverse=True)
    assert (tmp_path / "plot.svg").read_text("utf-8").startswith("<svg ")
    assert await tenants(cluster) == before


async def test_a_person_gets_precision_and_abstention(own: tuple[dict[str, str], Path]) -> None:
    environment, path = own

    ended = await skein("bench", "questions", str(path), environment=environment)

    assert ended.code == ExitCode.OK, ended.err
    words = ("hobby", "recall@5", "mrr", "Precision", "questions that have an answer", "Abstention", "3 questions")
    assert [word for word in words if word not in ended.out] == []
    assert "1 expected ids are in no answer" in ended.err


async def test_a_corpus_is_no_file_of_questions(own: tuple[dict[str, str], Path], corpus: Path) -> None:
    ended = await skein("bench", "questions", str(corpus), environment=own[0])

    assert ended.code == ExitCode.REFUSED
    assert "Line 1: is for `skein bench corpus`" in ended.err
