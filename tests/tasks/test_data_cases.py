"""Files of labeled data are read, warned of or refused: the rows of `data_cases.json`, by what they show.

A row has a task (or `texts`: those to embed), a file, settings (or several, which give the same), its content, and what
it becomes: the examples, parts of the error's message with … between them, or an object with the warning and the
examples or the labels. `labeled: false` reads for prediction; `show` names other parts of the examples.
"""

import json
import warnings
from pathlib import Path

import pytest

from cloze.data.reading.tagged_text import TaggedText
from cloze.errors import DataWarning, InputError
from cloze.finetuning.findings import find_in_labels
from cloze.inference.embedding_files import read_texts
from cloze.tasks.predict import featurize
from cloze.tasks.questions import SpanQuestion
from cloze.tasks.texts import ChoiceQuestion
from helpers import task_of, write_rows

pytestmark = pytest.mark.protected
CASES = json.loads(Path(__file__).with_name("data_cases.json").read_text("utf-8"))


def shown(example, show):
    """Return the texts and the answer of an example; words with their tags and | between sentences."""
    if isinstance(example, str):
        return example
    if isinstance(example, TaggedText):
        if show == "text":
            return example.text
        if show == "entities":
            return " ".join(
                word
                for s in example.sentences
                for word, tag in zip(s.words, s.tags, strict=True)
                if tag != "O"
            )
        tagged = [zip(s.words, s.tags or [None] * len(s.words), strict=True) for s in example.sentences]
        return " | ".join(
            " ".join(f"{word}/{tag}" if tag else word for word, tag in pairs) for pairs in tagged
        )
    if isinstance(example, SpanQuestion):
        return [example.question, *([answer.text, answer.start] for answer in example.answers)]
    line = int(example.where.rpartition(":")[2]) if show in ("lines", "places") else None
    if show == "places":
        return line
    gold = sorted(example.gold) if isinstance(example.gold, frozenset) else example.gold
    texts = (
        [example.prompt, [*example.choices]]
        if isinstance(example, ChoiceQuestion)
        else [text for text in (example.text, example.pair, *example.negatives) if text is not None]
    )
    return [*texts, gold, *([line] if line else [])]


@pytest.mark.parametrize(
    ("name", "file", "settings", "content", "expected"),
    [row for rows in CASES.values() for row in rows],
    ids=[f"{what} {number}" for what, rows in CASES.items() for number, _ in enumerate(rows, 1)],
)
def test_data_are_read_warned_of_or_refused(tmp_path, tokenizer, name, file, settings, content, expected):
    path = tmp_path / file
    if isinstance(content, str):
        path.write_text(content, encoding="utf-8", newline="")
    else:
        write_rows(path, content)
    for chosen in settings if isinstance(settings, list) else [settings]:
        chosen = dict(chosen)
        labeled, show = chosen.pop("labeled", True), chosen.pop("show", None)
        if name == "texts":
            read = lambda chosen=chosen: list(read_texts(path, **chosen))  # noqa: E731
        else:
            task = task_of(name, **{key: tuple(v) if isinstance(v, list) else v for key, v in chosen.items()})
            read = lambda task=task, labeled=labeled: list(task.examples(path, labeled=labeled))  # noqa: E731
        if isinstance(expected, str):
            with pytest.raises(InputError) as raised:  # noqa: PT012
                examples = read()
                featurize(task.fit(examples).answer, examples, tokenizer, max_seq_length=16)
            for part in expected.split(" … "):
                assert part in str(raised.value)
            assert str(raised.value).startswith(f"{path}")
            assert "\n" not in str(raised.value)
            continue
        told = expected if isinstance(expected, dict) else {"reads": expected}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            examples = read()
            fitted = task.fit(examples) if "fits" in told else None
        found = [str(warning.message) for warning in caught if issubclass(warning.category, DataWarning)]
        if fitted is not None:
            found += [finding.sentence for finding in find_in_labels(task, fitted, examples)]
        assert len(found) == ("warns" in told)
        for part in told.get("warns", "").split(" … "):
            assert part in "".join(found)
        assert (None if fitted is None else list(fitted.answer.labels)) == told.get("fits")
        if "reads" in told:
            assert [shown(example, show) for example in examples] == told["reads"]
