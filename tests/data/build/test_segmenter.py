"""Words of a segmenter, which whole-word masking takes where a script has no spaces."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from cloze.data.audit import AuditConfig, audit_dataset
from cloze.data.build.corpus import build_dataset
from cloze.data.build.input_shards import ReadingConfig
from cloze.data.build.parts import BuildConfig
from cloze.data.dataset import Dataset
from cloze.data.instances.google_instances import GoogleSettings, materialize
from cloze.data.instances.instances import DynamicInstances
from cloze.data.instances.masking import MaskingConfig
from cloze.data.instances.pairs import PairsConfig
from cloze.errors import InputError, RunError
from cloze.tokenization.loading import load_tokenizer
from corpora import rows_of, save_vocabulary

SENTENCES = ["北京大学的学生 playing", "他来到北京"]
WORDS = [["北京", "大学", "的", "学生", "playing"], ["他", "来到", "北京"]]
TOKENS = [*"北京大学的生他来到", "play", "##ing", "大学"]
SEGMENTER = "import re\ndef cut(text):\n    return re.findall('北京|大学|学生|来到|[a-z]+|.', text.replace(' ', ''))\n"
SEGMENTER += "def first(text):\n    return [text[:2]]\n"


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest):
    module = "segmenter_" + "".join(filter(str.isalnum, request.node.name.encode("ascii", "ignore").decode()))
    (tmp_path / f"{module}.py").write_text(SEGMENTER)
    monkeypatch.chdir(tmp_path)
    save_vocabulary(tmp_path / "vocabulary", TOKENS)
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join("\n".join([*SENTENCES, f"他的学生{'大' * n}"]) for n in range(1, 30)))

    def make(name: str, *, function: str | None = "cut", **settings: object) -> Dataset:
        reading = ReadingConfig(text_format="sentences", part_characters=100)
        segmenter = None if function is None else f"{module}:{function}"
        fraction = None if settings.get("append") else 0.1
        config = BuildConfig(reading=reading, segmenter=segmenter, validation_fraction=fraction)
        build_dataset([text], tmp_path / "vocabulary", tmp_path / name, config, **settings)
        return Dataset.open(tmp_path / name)

    return make


def test_tokens_are_those_without_a_segmenter(build):
    with_words, plain = build("with"), build("plain", function=None)
    assert rows_of(with_words.documents) == rows_of(plain.documents)
    assert (
        with_words.documents.token_counts(plain.vocab_size).tolist()
        == plain.documents.token_counts(plain.vocab_size).tolist()
    )
    assert with_words.info == replace(plain.info, has_words=True)
    documents = with_words.documents
    bounds = documents.sentence_offsets[np.arange(3)]
    _, continues = documents.gather(bounds[:2], np.diff(bounds))
    tokens = [load_tokenizer(plain.path).tokens[i] for i in documents.read(0, len(continues))]
    words: list[str] = []
    for token, is_continued in zip(tokens, continues, strict=True):
        if is_continued:
            words[-1] += token.removeprefix("##")
        else:
            words.append(token)
    assert words == [word for sentence in WORDS for word in sentence]
    assert plain.documents.gather(bounds[:2], np.array([1, 1]))[1] is None


def source_of(dataset: Dataset, *, whole_word: bool) -> DynamicInstances:
    masking = MaskingConfig(whole_word=whole_word, masked_lm_prob=0.3)
    pairs = PairsConfig(next_sentence=False)
    documents, tokenizer = dataset.split("train"), load_tokenizer(dataset.path)
    return DynamicInstances(documents, tokenizer, 48, None, pairs, masking, 1, 0)


def test_whole_words_are_those_of_the_segmenter(build):
    with_words, plain = build("with"), build("plain", function=None)
    source, others = source_of(with_words, whole_word=True), source_of(plain, whole_word=True)
    tokens = source.tokenizer.tokens
    broken = 0
    for position in range(source.num_instances(0)):
        for drawn, is_segmented in ((source, True), (others, False)):
            batch = drawn.batch(0, np.array([position]))
            ids = batch.input_ids.copy()
            ids[batch.masked_lm_positions] = batch.masked_lm_ids
            chosen = set(batch.masked_lm_positions.tolist())
            text = [tokens[i] for i in ids]
            for place, (one, two) in enumerate(pairwise(text)):
                if one + two in ("北京", "来到"):
                    is_broken = (place in chosen) != (place + 1 in chosen)
                    assert not (is_segmented and is_broken)
                    broken += is_broken
    assert broken  # without a segmenter each character is a word
    same = [source_of(dataset, whole_word=False).batch(0, np.arange(9)) for dataset in (with_words, plain)]
    assert (same[0].input_ids == same[1].input_ids).all()


def test_a_data_set_with_words_is_appended_and_audited(build, tmp_path):
    with_words = build("with")
    audit = audit_dataset(with_words, AuditConfig(seq_lengths=(32,), masking=MaskingConfig(whole_word=True)))
    assert audit.counts.tokens == with_words.split("train").token_counts(with_words.vocab_size).sum()
    assert audit.counts.unknown_share == 0
    assert build("with", append=True).info.documents == 2 * with_words.info.documents
    build("plain", function=None)
    for name, function, how in (("with", None, "with"), ("plain", "cut", "without")):
        with pytest.raises(InputError, match=rf"^segmenter: .*{name} was built {how} one\. Append in the"):
            build(name, function=function, append=True)
    tokenizer = load_tokenizer(with_words.path)
    with pytest.raises(InputError, match="whole words of Google's instances are those of ##"):
        materialize(with_words.documents, tokenizer, tmp_path / "i", GoogleSettings(whole_word=True))


def test_a_segmenter_with_a_bug_is_an_error(build):
    with pytest.raises(InputError, match=r"^segmenter: segmenter_\w+:none: AttributeError"):
        build("none", function="none")
    with pytest.raises(RunError, match=r"^segmenter: .*is in no word.*It takes a text and returns all"):
        build("bad", function="first")
