"""The tagger of running text: places in characters, any length, models of transformers; and how text is cut."""

from pathlib import Path

import pytest
import torch
import transformers

from cloze import artifacts
from cloze.errors import InputError
from cloze.inference.tag import EntityTagger
from cloze.model.bert import BertConfig, BertModel
from cloze.model.checkpoint import TASK_FILE, load_model, write_model_files
from cloze.model.heads import BertForTokenClassification
from cloze.model.packed import pack_padded
from cloze.tasks.config import TaskSettings, to_toml
from cloze.tasks.running_text import read_text
from cloze.tasks.tags import OwnTags
from cloze.text.tokenizer import Tokenizer

PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d", "##a", ".", ",")
LABELS = ("O", "B-X", "I-X", "B-Y", "I-Y")
CONFIG = BertConfig(
    vocab_size=len(PIECES),
    hidden_size=12,
    num_hidden_layers=1,
    num_attention_heads=3,
    intermediate_size=20,
    max_position_embeddings=30,
    initializer_range=0.5,
)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    generator = torch.Generator().manual_seed(4)
    encoder = BertModel(CONFIG, generator=generator)
    model = BertForTokenClassification(encoder, num_labels=len(LABELS), generator=generator)
    path = tmp_path_factory.mktemp("tagger") / "model"
    with artifacts.write_directory(path, kind="checkpoint") as directory:
        write_model_files(directory, model, Tokenizer.from_pieces(PIECES), labels=LABELS)
        settings = to_toml(OwnTags(labels=LABELS), TaskSettings(max_seq_length=12))
        (directory / TASK_FILE).write_text(settings)
    return path


@pytest.fixture(scope="session")
def tagger(checkpoint: Path) -> EntityTagger:
    return EntityTagger.load(checkpoint, device="cpu")


def test_entities_stand_where_they_say(tagger: EntityTagger) -> None:
    text = "  A b, c\u200bd.   D\u00e1 (a) " + "a b c d " * 300 + "."
    (found,) = tagger([text])
    assert len({entity.type for entity in found}) == 2
    assert len(found) > 10
    assert all(text[entity.start : entity.end] == entity.text for entity in found)
    assert all(0 < entity.probability <= 1 for entity in found)
    assert [entity.start for entity in found] == sorted(entity.start for entity in found)
    assert found[-1].end > 2000


def test_one_text_is_no_list_of_letters(tagger: EntityTagger) -> None:
    with pytest.raises(InputError, match="texts: is one text"):
        tagger("Ada")


def test_texts_do_not_depend_on_each_other(tagger: EntityTagger) -> None:
    texts = ["a b c d " * i for i in range(60)]
    together = tagger(texts)
    for i in (0, 1, 7, 59):
        (alone,) = tagger([texts[i]])
        assert [(e.type, e.start, e.end) for e in together[i]] == [(e.type, e.start, e.end) for e in alone]
    assert together[0] == []
    assert tagger([]) == []


def test_other_models_are_refused(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a model for the task 'tagging', not 'cola'"):
        EntityTagger.load(checkpoint, "cola", device="cpu")
    encoder = BertModel(CONFIG)
    write_model_files(tmp_path, encoder, Tokenizer.from_pieces(PIECES), labels=("yes", "no"))
    with pytest.raises(InputError, match="no tagger: its class 'yes' is no tag as B-PER is"):
        EntityTagger.load(tmp_path, "tagging", device="cpu")


def ragged() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    lengths = torch.tensor([7, 30, 1, 12])
    mask = torch.arange(30) < lengths[:, None]
    input_ids = torch.randint(len(PIECES), mask.shape, generator=generator) * mask
    return input_ids, mask, torch.zeros_like(input_ids)


def test_transformers_reads_it_and_says_the_same(checkpoint: Path) -> None:
    ours = load_model(checkpoint, lambda bert: BertForTokenClassification(bert, num_labels=len(LABELS)))
    theirs = transformers.AutoModelForTokenClassification.from_pretrained(checkpoint).eval()
    assert type(theirs) is transformers.BertForTokenClassification
    assert [theirs.config.id2label[i] for i in range(5)] == list(LABELS)
    input_ids, mask, types = ragged()
    packed, padding = pack_padded(input_ids, mask, types)
    with torch.no_grad():
        expected = theirs(input_ids, attention_mask=mask.long(), token_type_ids=types).logits
        logits = padding.unpack_tokens(ours(packed))
    torch.testing.assert_close(logits[mask], expected[mask], atol=1e-5, rtol=1e-5)


def test_what_transformers_wrote_tags_text(tmp_path: Path) -> None:
    names = {number: label for number, label in enumerate(LABELS)}
    table = {name: getattr(CONFIG, name) for name in BertConfig.__dataclass_fields__}
    theirs = transformers.BertForTokenClassification(transformers.BertConfig(**table, id2label=names)).eval()
    theirs.save_pretrained(tmp_path)
    Tokenizer.from_pieces(PIECES).save(tmp_path)
    tagger = EntityTagger.load(tmp_path, "tagging", device="cpu")
    assert tagger.max_seq_length == 30
    text = "a b c d a b"
    example = tagger.task.example(text)
    (prediction,), _ = tagger.predict([example])
    ids = torch.tensor([[2, 5, 6, 7, 8, 5, 6, 3]])
    with torch.no_grad():
        probabilities = theirs(ids).logits[0, 1:-1].softmax(-1).max(-1).values
    assert prediction.probabilities[0] == pytest.approx(probabilities.tolist(), abs=1e-5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Is it J. Smith?", "Is|it|J.|Smith|?"),
        ('"Yes," (he said)...', '"|Yes|,|"|(|he|said|)|.|.|.'),
        ("The U.S. won 3-1, 10,000 saw it.", "The|U.S.|won|3-1|,|10,000|saw|it|."),
        ("Ann's dog, Bob’s cat", "Ann|'s|dog|,|Bob|’s|cat"),
        ("@ann likes #tags & # 's", "@ann|likes|#tags|&|#|'|s"),
        ("我爱北京。你呢", "我|爱|北|京|。|你|呢"),
        ("नमस्ते दुनिया।", "नमस्ते|दुनिया|।"),
        (" \n\t ", ""),
        ("$5.", "$|5|."),
        ("...", ".|.|."),
    ],
)
def test_text_is_cut_as_tagged_data_are(text: str, words: str) -> None:
    sentences = read_text(text)
    assert "|".join(word for sentence in sentences for word in sentence.words) == words
    for sentence in sentences:
        assert sentence.offsets is not None
        assert [text[start:end] for start, end in sentence.offsets] == list(sentence.words)
