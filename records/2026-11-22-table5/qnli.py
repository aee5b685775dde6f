"""Make pairs in QNLI's form of SQuAD's training questions: python qnli.py train-v1.1.json 10000 > train.tsv.

Half of the questions stand beside the sentence with their answer, half beside that other sentence of the paragraph
which shares most words with them. GLUE drew its pairs in the same spirit; its own training file is another.
"""

import json
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from cloze.tokenization.sentences import split_sentences

_WORD = re.compile(r"\w+")


def questions(path: Path) -> Iterator[tuple[str, list[str], int]]:
    """Yield each question with the sentences of its paragraph and the place of the one with its answer."""
    for article in json.loads(path.read_text("utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            sentences = [" ".join(each.split()) for each in split_sentences(paragraph["context"])]
            for question in paragraph["qas"]:
                answer = " ".join(question["answers"][0]["text"].split())
                holding = [place for place, sentence in enumerate(sentences) if answer in sentence]
                if len(holding) == 1 and len(sentences) > 1:
                    yield " ".join(question["question"].split()), sentences, holding[0]


def words(text: str) -> set[str]:
    """Return the different words of a text."""
    return set(_WORD.findall(text.lower()))


def main(path: Path, number: int) -> None:
    """Print so many rows."""
    drawn = random.Random(2026).sample(list(questions(path)), number)
    print("index\tquestion\tsentence\tlabel")
    for index, (question, sentences, answer) in enumerate(drawn):
        entailed = index % 2 == 0
        others = [sentence for place, sentence in enumerate(sentences) if place != answer]
        nearest = max(others, key=lambda sentence: len(words(sentence) & words(question)))
        sentence = sentences[answer] if entailed else nearest
        print(index, question, sentence, "entailment" if entailed else "not_entailment", sep="\t")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
