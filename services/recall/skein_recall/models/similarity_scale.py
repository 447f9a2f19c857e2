"""The range of a model's cosines: where unrelated texts lie, and where texts lie that answer. No model, no I/O.

Models differ: cosines of all-MiniLM-L6-v2 lie between 0 and 0.7, those of e5-small-v2 between 0.7 and 0.9. A ranking
that weighs cosines against words therefore scales them. The scale of a model follows from its cosines of a fixed list
of texts: their medians land where those of all-MiniLM-L6-v2 lie, for which the weights of the ranking were fitted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    _Cosines = TypeVar("_Cosines", float, NDArray[np.float64])

# Questions with what answers each. No answer has anything to do with another question.
PAIRS: Final = (
    ("Where is the spare key for the shed?", "Under the third flower pot, wrapped in a plastic bag."),
    ("Which medicine does Grandpa take in the morning?", "He swallows his blood pressure tablet after breakfast."),
    ("What colour did they paint the nursery?", "We settled on a pale green for the baby's room."),
    ("Who is picking up Lena from kindergarten?", "Her aunt will fetch her at four, since both parents work late."),
    ("How do I restart the print server?", "Log in as root and run the restart script for the printer queue."),
    ("When does the lease of the office end?", "The rental contract of our rooms downtown runs until March."),
    ("Is there anything Priya cannot eat?", "Priya is allergic to peanuts and shellfish."),
    ("What was the final score on Saturday?", "Our team lost two to three after extra time."),
    ("Why did the deployment fail last night?", "The database migration timed out, so the release was rolled back."),
    ("Which train should I take to get to Hamburg?", "The express at seven twelve gets you there without changing."),
    ("What does the dog do when it thunders?", "During storms he hides in the bathtub and trembles."),
    ("How long should the bread stay in the oven?", "Bake the loaf for forty minutes, then let it cool on a rack."),
    ("What is the budget for the garden?", "We can spend at most two thousand on plants and the fence."),
    ("Which book is Omar reading at the moment?", "He is halfway through a novel about a lighthouse keeper."),
    ("Where did you two meet for the first time?", "We got to know each other at a pottery class in Porto."),
    ("What is wrong with the washing machine?", "It leaks from the door seal as soon as the spin cycle starts."),
    ("How often does the guitar teacher come?", "She gives me music lessons every second Thursday."),
    ("Who signed the contract with the supplier?", "Mr Tanaka put his signature under the purchase agreement."),
    ("What would you like for your birthday?", "I wish for a telescope to look at the planets."),
    ("Which language is the new service written in?", "The team chose Rust for the billing backend."),
    ("How did the interview at the bank go?", "They offered me the job as a teller on the spot."),
    ("Where does your sister live now?", "She moved to a small fishing village in Norway."),
    ("What helps you to fall asleep?", "A cup of camomile tea and no screens after ten."),
    ("Which vaccinations do we need for the trip?", "Travellers to Kenya must be immunised against yellow fever."),
)  # fmt: skip
# Medians of all-MiniLM-L6-v2, the embedded one with weights of one byte: `medians` of its vectors of PAIRS.
UNRELATED_MEDIAN: Final = 0.062
ANSWER_MEDIAN: Final = 0.460
# A model whose medians are nearer to each other does not tell answers from unrelated texts.
_MIN_DISTANCE: Final = 0.02


class SimilarityScale(NamedTuple):
    """A linear scale of cosines: the floor becomes 0, the ceiling 1."""

    floor: float = 0.0
    ceiling: float = 1.0

    def scaled(self, cosines: _Cosines) -> _Cosines:
        """Return cosines on this scale; some are below 0 or above 1."""
        return (cosines - self.floor) / (self.ceiling - self.floor)


# Of a model whose cosines are used as they are.
COSINE_SCALE: Final = SimilarityScale()


def medians(questions: NDArray[np.float32], answers: NDArray[np.float32]) -> tuple[float, float]:
    """Return the median cosines of unrelated texts and of answers, from unit vectors (pairs, dimensions) in order."""
    cosines = questions.astype(np.float64) @ answers.astype(np.float64).T
    is_answer = np.eye(len(cosines), dtype=np.bool_)
    return float(np.median(cosines[~is_answer])), float(np.median(cosines[is_answer]))


def measured_scale(questions: NDArray[np.float32], answers: NDArray[np.float32]) -> SimilarityScale:
    """Return the scale of a model from its unit vectors (pairs, dimensions) of the questions and answers of PAIRS.

    It is COSINE_SCALE for a model that does not tell answers from unrelated texts.
    """
    unrelated, answer = medians(questions, answers)
    if answer - unrelated < _MIN_DISTANCE:
        return COSINE_SCALE
    width = (answer - unrelated) / (ANSWER_MEDIAN - UNRELATED_MEDIAN)
    floor = unrelated - UNRELATED_MEDIAN * width
    return SimilarityScale(floor, floor + width)
