"""Recall in the tenant's language: by the words of Latin scripts, and of Chinese, Japanese and Korean."""

from __future__ import annotations

import pytest
from fix_cluster import Tenant
from google.protobuf.field_mask_pb2 import FieldMask

from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_kit.search_text.segmentation import MAX_LETTERS, segment

# Of each language what is remembered, and questions with the number of the memory that answers.
CORPORA = {
    "english": (
        [
            "The vet vaccinated our cats on Tuesday.",
            "Grandmother grows tomatoes behind the garage.",
            "The boiler makes a whistling noise when it starts.",
            "Ivo is allergic to peanuts and cashews.",
            "We booked the ferry to Corsica for July.",
        ],
        {"Which vaccinations did the cat get?": 0, "What does grandma grow?": 1, "noises of the boiler": 2},
    ),
    "german": (
        [
            "Der Tierarzt hat unsere Katzen am Dienstag geimpft.",
            "Die Großmutter zieht Tomaten hinter der Garage.",
            "Der Heizkessel pfeift, wenn er anspringt.",
            "Ivo verträgt keine Erdnüsse und keine Cashewkerne.",
            "Wir haben die Fähre nach Korsika für Juli gebucht.",
        ],
        {"Was pfeift beim Anspringen?": 2, "Welche Nüsse verträgt Ivo nicht?": 3, "Wann geht die Fähre?": 4},
    ),
    "french": (
        [
            "Le vétérinaire a vacciné nos chats mardi.",
            "Grand-mère cultive des tomates derrière le garage.",
            "La chaudière siffle au démarrage.",
            "Ivo est allergique aux cacahuètes.",
            "Nous avons réservé le ferry pour la Corse en juillet.",
        ],
        {"Qui a des allergies ?": 3, "Quels légumes pousse-t-elle, les tomates ?": 1, "réservation du ferry": 4},
    ),
    "spanish": (
        [
            "El veterinario vacunó a nuestros gatos el martes.",
            "La abuela cultiva tomates detrás del garaje.",
            "La caldera silba cuando arranca.",
            "Ivo es alérgico a los cacahuetes.",
            "Reservamos el ferry a Córcega para julio.",
        ],
        {"¿Qué vacunas tienen los gatos?": 0, "¿Dónde están los tomates de la abuela?": 1, "¿Quién silba?": 2},
    ),
    "chinese": (
        [
            "兽医星期二给我们的猫打了疫苗。",
            "奶奶在车库后面种西红柿。",
            "锅炉启动的时候有口哨一样的声音。",
            "小明对花生和腰果过敏。",
            "我们订了七月去海南的船票。",
        ],
        {"猫什么时候打的疫苗?": 0, "谁种西红柿?": 1, "小明对什么过敏?": 3, "去海南的船票": 4},
    ),
    "japanese": (
        [
            "獣医が火曜日に猫の予防接種をした。",
            "祖母はガレージの裏でトマトを育てている。",
            "ボイラーは始動すると笛のような音がする。",
            "太郎はピーナッツにアレルギーがある。",
            "七月に北海道行きのフェリーを予約した。",
        ],
        {"猫の予防接種はいつですか": 0, "トマトはどこで育てていますか": 1, "アレルギーは何ですか": 3},
    ),
    "korean": (
        [
            "수의사가 화요일에 고양이들에게 예방 접종을 했다.",
            "할머니는 차고 뒤에서 토마토를 키운다.",
            "보일러는 켜질 때 휘파람 소리가 난다.",
            "민수는 땅콩 알레르기가 있다.",
            "우리는 칠월에 제주도로 가는 배를 예약했다.",
        ],
        {"고양이의 접종": 0, "토마토는 누가 키우나요?": 1, "민수의 알레르기": 3, "제주도 배 예약": 4},
    ),
}


async def speak(tenant: Tenant, language: str) -> None:
    policy = subjects_pb2.Policy(search_language=language)
    mask = FieldMask(paths=["search_language"])
    await tenant.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=mask))


@pytest.mark.system
@pytest.mark.parametrize("language", list(CORPORA))
async def test_a_question_in_a_language_finds_its_answer_first(tenant: Tenant, language: str) -> None:
    contents, questions = CORPORA[language]
    if language in {"german", "french", "spanish"}:
        await speak(tenant, language)
    memories = [memory_pb2.Memory(external_id=f"m{number}", content=text) for number, text in enumerate(contents)]
    await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))

    found = {
        question: (await tenant.gateway.Recall(pb.RecallRequest(query=question))).hits[0].memory.external_id
        for question in questions
    }

    assert found == {question: f"m{number}" for question, number in questions.items()}


async def test_a_chinese_message_is_found_by_a_word_within_it(tenant: Tenant) -> None:
    contents = ["今天下雨,我们在家看电影。", "明天去爬山。"]
    messages = [session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=text) for text in contents]
    await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id="s1", create_session=True, messages=messages)
    )

    response = await tenant.sessions.SearchMessages(
        session_pb2.SearchMessagesRequest(query="爬山", mode=session_pb2.SEARCH_MODE_KEYWORD)
    )

    assert [hit.message.content for hit in response.hits] == [contents[1]]


@pytest.mark.system
async def test_the_longest_chinese_text_is_stored_and_found(tenant: Tenant) -> None:
    content = "".join(chr(0x4E00 + (number * 7919) % 20_000) for number in range(100_000))
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content=content)))

    response = await tenant.gateway.Recall(pb.RecallRequest(query=content[500:504]))

    assert response.hits[0].memory.content == content


UNREADABLE = {
    "thai": ("พรุ่งนี้ฉันจะไปกรุงเทพ", "แมวของฉันป่วย"),
    "arabic": ("أمي تسكن في دمشق", "القطة مريضة"),
    "hindi": ("मेरी माँ दिल्ली में रहती हैं", "बिल्ली बीमार है"),
    "chinese": ("我妈妈住在北京", "猫病了"),
}


@pytest.mark.system
@pytest.mark.parametrize("language", list(UNREADABLE))
async def test_a_model_claims_nothing_of_a_script_that_it_cannot_read(tenant: Tenant, language: str) -> None:
    content, question = UNREADABLE[language]
    memories = [memory_pb2.Memory(content=text) for text in (content, "My mother lives in Lisbon.")]
    await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))

    for query in (question, "Where does my mother live?"):
        for mode in (recall_pb2.SEARCH_MODE_SEMANTIC, recall_pb2.SEARCH_MODE_HYBRID):
            response = await tenant.gateway.Recall(pb.RecallRequest(query=query, mode=mode, min_relevance=0))
            similarities = {hit.memory.content: hit.similarity for hit in response.hits}
            assert abs(similarities.get(content, 0)) < 0.01
            assert query != question or max(map(abs, similarities.values()), default=0) < 0.01


def test_only_the_first_letters_of_a_text_are_segmented() -> None:
    text = "天" * (MAX_LETTERS + 10)

    assert segment(text).split()[-1] == "天" * 10
    assert segment("plain words 天气 x").split() == ["plain", "words", "天", "气", "天气", "x"]
