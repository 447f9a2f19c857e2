"""Questions that ask for all of something, in the languages that are read, and questions that ask for one thing."""

from __future__ import annotations

from fix_catalogue import over

from skein_kit.search_text.list_questions import asks_for_all

ALL = [
    "Which countries has Anna visited?",
    "What classical musicians does she listen to?",
    "What are our rules for code style?",
    "List the books on my shelf",
    "name all plants in the garden",
    "How many times did I go running?",
    "Does Ben call every Sunday?",
    "What did all of them bring?",
    "Who else was there?",
    "In what order did we visit the towns?",
    "Welche Länder hat Anna besucht?",
    "Wie viele Bücher hat Ben gelesen?",
    "Was hat Ben alles gekauft?",
    "Nenne mir alle Pflanzen im Garten",
    "In welcher Reihenfolge waren wir dort?",
    "¿Qué países ha visitado Ana?",
    "¿Cuántas veces fui a correr?",
    "¿Cuáles son los libros de Ana?",
    "Enumera todos los libros",
    "Quels pays Anne a-t-elle visités ?",
    "Combien de livres a-t-elle lus ?",
    "Ana 去过哪些国家\uff1f",
    "我一共跑了多少次\uff1f",
    "列出所有的书",
    "アンナは何回走りましたか",
]
ONE = [
    "Which country did Anna visit first?",
    "Which bus goes to the airport?",
    "Which song motivates her?",
    "What is the list price?",
    "What is the address?",
    "What was the news?",
    "What does Anna drink?",
    "How many years did she live there?",
    "When is the dentist?",
    "Welche Wohnung hat sie?",
    "Wie viele Stunden dauert die Fahrt?",
    "Wo wohnt Anna?",
    "¿Qué mes es?",
    "¿Dónde vive Ana?",
    "Où habite Anne ?",
    "Ana 喜欢什么颜色\uff1f",
    "",
]


@over("text", ALL)
def test_a_question_for_all_of_something_is_told(text: str) -> None:
    assert asks_for_all(text)


@over("text", ONE)
def test_a_question_for_one_thing_asks_for_no_list(text: str) -> None:
    assert not asks_for_all(text)


def test_only_the_beginning_of_a_long_text_is_read() -> None:
    assert not asks_for_all("It rained. " * 100 + "Which countries has Anna visited?")
