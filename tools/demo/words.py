"""The content words of the `demo` task: which split has which, how they are drawn and inflected."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

# Nouns and verbs inflect regularly, so that three short rules give all their forms.
_WORDS = {
    "person": "pilot clerk nurse baker farmer singer lawyer tailor dentist painter banker gardener "
    "student teacher doctor driver writer plumber tourist sailor soldier poet miner barber "
    "hunter coach chemist surgeon artist guard neighbor cousin",
    "man": "king uncle brother father son prince nephew boy grandfather duke monk wizard",
    "woman": "queen aunt sister mother daughter princess niece girl grandmother duchess nun witch",
    "name": "John Mary Peter Anna David Susan Robert Laura Michael Emma James Julia George Helen "
    "Henry Alice Frank Sarah Simon Linda",
    "thing": "lamp chair kettle ladder basket bottle hammer mirror pillow camera bicycle guitar "
    "blanket bucket helmet carpet ticket wallet candle drum sofa table jacket magazine "
    "umbrella shovel vase curtain clock boat ring piano",
    "place": "kitchen castle office village museum station hotel forest harbor market theater park "
    "airport stadium hospital tower",
    "quality": "tall short young old strong weak rich poor smart kind quick slow proud brave wise "
    "calm cruel fierce neat clever tough rude bold harsh",
    "look": "red blue green purple narrow woolen wooden heavy shiny silver tiny huge oval modern "
    "round yellow",
    "manner": "happily eagerly carefully gently nervously cheerfully silently patiently secretly "
    "constantly repeatedly frequently briefly openly gladly immediately",
    "handle": "repair destroy examine inspect purchase obtain damage lift display replace discard "
    "acquire mention describe touch admire ignore photograph select demand wreck fetch possess "
    "measure",
    "treat": "thank praise trust respect blame criticize defend insult protect amuse embarrass "
    "deceive surprise comfort convince doubt punish scare impress reward",
    "act": "sneeze laugh cough yawn snooze arrive complain hesitate smile snore wait vanish shiver "
    "blush giggle disappear gasp sigh tremble stumble wander mutter frown chuckle",
    "claim": "claimed believed insisted reported argued stated suspected declared feared "
    "announced concluded assumed",
    "know": "remembered revealed forgot discovered learned guessed knew noticed",
    "hope": "wanted hoped decided refused agreed promised expected planned managed pretended "
    "wished failed",
    "enjoy": "enjoyed avoided finished denied considered imagined disliked resisted postponed "
    "suggested quit recalled",
}
# Of every four words two are for training, one for validation, one for testing.
_SHARES = ("train", "validation", "train", "test")

Words = Mapping[str, tuple[str, ...]]


def words_of(split: str) -> Words:
    """Returns the content words of a split by kind; no other split has them."""
    return {
        kind: tuple(w for i, w in enumerate(line.split()) if _SHARES[i % len(_SHARES)] == split)
        for kind, line in _WORDS.items()
    }


@dataclass(frozen=True, slots=True)
class Draw:
    """What one pair is made with.

    Attributes:
        words: The content words of the split.
        rng: The random stream of the phenomenon.
        turn: Number of the pair among those of its phenomenon; it chooses the variant.
    """

    words: Words
    rng: np.random.Generator
    turn: int

    def one(self, kind: str) -> str:
        """Returns a word."""
        return self.words[kind][int(self.rng.integers(len(self.words[kind])))]

    def two(self, kind: str) -> tuple[str, str]:
        """Returns two different words."""
        words = self.words[kind]
        first = int(self.rng.integers(len(words)))
        step = 1 + int(self.rng.integers(len(words) - 1))
        return words[first], words[(first + step) % len(words)]

    def number(self, noun: str) -> str:
        """Returns the noun in the singular or the plural."""
        return plural(noun) if self.rng.random() < 0.5 else noun

    def turned(self, first: str, second: str, every: int = 1) -> tuple[str, str]:
        """Returns the two in this order or the other; the order changes every `every` turns."""
        return (second, first) if self.turn // every % 2 else (first, second)


def plural(noun: str) -> str:
    """Returns `lamps` for `lamp`, `witches` for `witch`."""
    return noun + ("es" if noun.endswith(("s", "sh", "ch", "x")) else "s")


def past(verb: str) -> str:
    """Returns `laughed` for `laugh`; it is the participle too."""
    return verb.removesuffix("e") + "ed"


def gerund(verb: str) -> str:
    """Returns `laughing` for `laugh`."""
    return verb.removesuffix("e") + "ing"
