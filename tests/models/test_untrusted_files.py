"""Damaged and malicious directories: no code is run, no file outside is touched, and one line of error is printed.

Each case damages a directory of transformers or sentence-transformers and passes it to commands that read models, or to
`load_model` if it names none, in bounded memory.
"""

import base64
import io
import json
import os
import pickle
import resource
import shutil
import struct
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import processors

from cloze import artifacts, file_io
from cloze.cli import main
from cloze.errors import InputError
from cloze.model_paths import resolve_checkpoint
from cloze.models.bert import BertConfig, BertModel
from cloze.models.checkpoint import load_model, save_model
from cloze.models.heads import BertForPreTraining
from cloze.models.sentence_transformers import (
    SentenceEncoderConfig,
    load_sentence_encoder_config,
    save_sentence_encoder_config,
)
from cloze.tokenization.special_tokens import SPECIAL_TOKENS
from cloze.tokenization.wordpiece import WordPieceTokenizer
from cloze.training.metrics_log import read_metrics
from helpers import edit_json
from tiny_models import SIZES, numbered_tokens

pytestmark = [pytest.mark.protected, pytest.mark.trials("attack")]

CONFIG = BertConfig(**SIZES)
GIGABYTE = 1 << 30
Spoil = Callable[[Path], object]
"""Damages a directory."""
EMBEDDINGS, BIAS = "bert.embeddings.word_embeddings.weight", "bert.pooler.dense.bias"


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    """A whole model with a manifest, and a file beside it."""
    torch.manual_seed(0)
    tokenizer = WordPieceTokenizer.from_tokens(numbered_tokens(40))
    with artifacts.write_directory(tmp_path / "model", kind="checkpoint") as directory:
        save_model(directory, BertForPreTraining(BertModel(CONFIG)), tokenizer)
        vectors = SentenceEncoderConfig(pooling="mean", normalize=True, max_seq_length=None)
        save_sentence_encoder_config(directory, vectors, hidden_size=CONFIG.hidden_size)
    (tmp_path / "secret").write_text("of another user")
    (tmp_path / "texts.txt").write_text("w1 w2\n")
    return tmp_path / "model"


@pytest.fixture
def model(sealed: Path) -> Path:
    """The same without a manifest, as other programs leave it."""
    (sealed / "manifest.json").unlink()
    return sealed


@pytest.fixture
def in_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def bounded() -> Iterator[None]:
    """No more than a gigabyte beyond what the process has: what asks for it gets none."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + GIGABYTE, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def raw(header: Any, data: bytes = b"", *, length: int | None = None) -> bytes:
    """A file of safetensors with any header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(begin: int, end: int, shape: list[Any], dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def text(file: str, content: str | bytes) -> Spoil:
    data = content if isinstance(content, bytes) else content.encode()
    return lambda directory: (directory / file).write_bytes(data)


def rewritten(file: str, change: Callable[[bytes], bytes]) -> Spoil:
    return lambda directory: (directory / file).write_bytes(change((directory / file).read_bytes()))


def changed(file: str, *path: str | int, to: Any) -> Spoil:
    return lambda directory: edit_json(directory / file, *path, to=to)


of_tokenizer = partial(changed, "tokenizer.json")


def weights(change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> Spoil:
    def spoil(directory: Path) -> None:
        own = {name: value.clone() for name, value in load_file(directory / "model.safetensors").items()}
        save_file(change(own), directory / "model.safetensors")

    return spoil


def torch_file(make: Callable[[dict[str, torch.Tensor]], Any]) -> Spoil:
    def spoil(directory: Path) -> None:
        own = load_file(directory / "model.safetensors")
        (directory / "model.safetensors").unlink()
        torch.save(make(own), directory / "pytorch_model.bin")

    return spoil


def gone(file: str) -> Spoil:
    return lambda directory: (directory / file).unlink()


def replaced(file: str, make: Spoil) -> Spoil:
    return several(gone(file), lambda directory: make(directory / file))


def sparse(file: str) -> Spoil:
    """A terabyte of zeros that takes no room on the disk."""
    return lambda directory: os.truncate(directory / file, 1 << 40)


def several(*spoils: Spoil) -> Spoil:
    def all_of_them(directory: Path) -> None:
        for spoil in spoils:
            spoil(directory)

    return all_of_them


def of_generic_class(*spoils: Spoil) -> Spoil:
    """Of the class that reads all of tokenizer.json, and gives the model its segments."""
    inputs = changed("tokenizer_config.json", "model_input_names", to=["input_ids", "token_type_ids"])
    name = changed("tokenizer_config.json", "tokenizer_class", to="PreTrainedTokenizerFast")
    return several(inputs, name, *spoils)


def indexed(index: Any) -> Spoil:
    def spoil(directory: Path) -> None:
        shutil.copy(directory / "model.safetensors", directory.parent / "one.safetensors")
        (directory / "model.safetensors").rename(directory / "one.safetensors")
        content = index if isinstance(index, str) else json.dumps({"weight_map": index})
        (directory / "model.safetensors.index.json").write_text(content)

    return spoil


class Payload:
    """Makes a directory when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("trap",)


def compressed(data: bytes) -> bytes:
    bomb = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as whole, zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as copy:
        for name in whole.namelist():
            copy.writestr(name, whole.read(name))
    return bomb.getvalue()


@dataclass(frozen=True)
class Case:
    spoil: Spoil
    says: str
    verbs: tuple[str, ...] = ("fill", "import", "export")


def replacement(pattern: str | dict[str, str], content: str) -> dict[str, Any]:
    whole = {"String": pattern} if isinstance(pattern, str) else pattern
    return {"type": "Replace", "pattern": whole, "content": content}


def sequence(*steps: Any) -> dict[str, Any]:
    return {"type": "Sequence", "normalizers": [*steps]}


LONG_CHARSMAP = base64.b64encode(struct.pack("<I", 0) + b"\0" + b"w" * 1000 + b"\0").decode()
SEGMENT_9 = json.loads(
    processors.TemplateProcessing(
        "[CLS]:9 $A:9 [SEP]:9", "[CLS]:9 $A:9 [SEP]:9 $B:9 [SEP]:9", [("[CLS]", 2), ("[SEP]", 3)]
    ).__getstate__()
)
ID_9999 = {"type": "BertProcessing", "sep": ["[SEP]", 9999], "cls": ["[CLS]", 2]}
DEEP = "[" * 200_000
PIPE, DIRECTORY = os.mkfifo, os.mkdir


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


TORCH, ANSWERS, LOAD = ("import",), ("fill", "export"), ()
CUTS: dict[str, Callable[[bytes], bytes]] = {
    **{f"cut at {end}": lambda data, end=end: data[:end] for end in (0, 5, 1000, -1)},
    "with a flipped header": lambda data: data[:3] + bytes([data[3] ^ 255]) + data[4:],
}
OTHER_CONFIGS = {
    "word_embeddings.weight has shape [40, 24], the config says [40, 48]": ("hidden_size", 48),
    "word_embeddings.weight has shape [40, 24], the config says [41, 24]": ("vocab_size", 41),
    "no weight bert.encoder.layer.2.attention.self.query.weight, ": ("num_hidden_layers", 3),
    "unexpected weight bert.encoder.layer.1.": ("num_hidden_layers", 1),
    "hidden_size = 24 is not a multiple of num_attention_heads = 7": ("num_attention_heads", 7),
    "hidden_size must be of type int": ("hidden_size", "48"),
    "hidden_act = 'relu' is not a choice": ("hidden_act", "relu"),
    "model_type 'electra', cloze reads bert, ": ("model_type", "electra"),
    "position_embedding_type": ("position_embedding_type", "relative_key"),
    "config.json: is_decoder is true": ("is_decoder", True),
    "vocab.txt: 40 tokens, config.json says vocab_size = 39": ("vocab_size", 39),
    "vocab_size 0 is not positive": ("vocab_size", 0),
    "hidden_dropout_prob 1.0 is not at least 0 and below 1": ("hidden_dropout_prob", 1.0),
    "attention_probs_dropout_prob nan is not": ("attention_probs_dropout_prob", float("nan")),
    "initializer_range 0.0 is not above 0 and at most 1": ("initializer_range", 0.0),
}
HUGE_CONFIGS = {
    "vocab_size 1000000000000 is more than": {"vocab_size": 10**12},
    "type_vocab_size 1000000000000 is more": {"type_vocab_size": 10**12},
    "parameters, more than 4,000,000,000": {"hidden_size": 300_000, "num_hidden_layers": 100},
    "has shape [": {"hidden_size": 18_000, "num_hidden_layers": 1},
    "num_hidden_layers 1000000000 is more": {"num_hidden_layers": 10**9},
    "hidden_size -24": {"hidden_size": -24},
    "hidden_size": {"hidden_size": float("nan")},
}
INDEXES: dict[str, tuple[Any, str]] = {
    **{name: (name, "index.json") for name in ("{", "[]", '{"weight_map": 3}')},
    "a number for a file": ({"w": 3}, "index.json"),
    "a missing weight": ({"w": "one.safetensors"}, "the weight w is not in the file one"),
    **{
        name: ({"w": name}, "no .safetensors beside it")
        for name in ("../one.safetensors", "/etc/passwd", "deeper/one.safetensors", "model.bin")
    },
}
HEADERS = {
    "a header longer than the file": raw(b"{}", length=1 << 62),
    "a header of 99 MB that is not there": raw(b"{}", length=99_000_000),
    "a header that is not JSON": raw(b"\xff" * 64),
    "a deep header": raw(DEEP.encode()),
    "overlapping tensors": raw({"a": tensor(0, 8, [2]), "b": tensor(4, 12, [2])}, bytes(12)),
    "a hole between tensors": raw({"a": tensor(0, 4, [1]), "b": tensor(8, 12, [1])}, bytes(12)),
    "a negative offset": raw({"a": tensor(-4, 4, [2])}, bytes(8)),
    "an offset beyond the end": raw({"a": tensor(0, 1 << 50, [1 << 48])}),
    "a shape that overflows": raw({"a": tensor(0, 0, [1 << 40, 1 << 40, 1 << 40])}),
    "a negative shape": raw({"a": tensor(0, 4, [-1])}, bytes(4)),
    "a type that there is not": raw({"a": tensor(0, 4, [1], "X9")}, bytes(4)),
    "nothing at all": b"",
}
OTHER_WEIGHTS: dict[str, tuple[str, str, Callable[[torch.Tensor], torch.Tensor]]] = {
    "integers": ("has dtype int32", EMBEDDINGS, torch.Tensor.int),
    "complex numbers": ("has dtype complex64", BIAS, lambda bias: bias.to(torch.complex64)),
    "truths": ("has dtype bool", "cls.predictions.bias", torch.Tensor.bool),
    "infinite numbers": ("NaN or infinite", "cls.predictions.bias", lambda bias: bias / 0),
    "8-bit NaN": (
        "NaN or infinite",
        "cls.predictions.bias",
        lambda bias: (bias + torch.nan).to(torch.float8_e4m3fn),
    ),
}
GROWING = {
    "a billion characters of one": sequence(*[replacement("w", "w" * 10)] * 9),
    "nothing that is replaced": sequence(*[replacement("", "x")] * 30),
    "characters that Unicode takes apart": sequence(*[replacement("w", "\ufdfa"), {"type": "NFKD"}] * 9),
    "a map of characters to long texts": {"type": "Precompiled", "precompiled_charsmap": LONG_CHARSMAP},
}
MAX_CHARS = ("model", "max_input_chars_per_word")
TOKENIZERS: dict[str, tuple[str, tuple[str, ...], Any]] = {
    "a normaliser of regular expressions": (
        "tokenizer.json: the regular expression '(a+)+$' repeats a group",
        ("normalizer",),
        {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": ""},
    ),
    "a model of another kind": ("tokenizer.json: damaged", ("model", "type"), "Unigram"),
    "ids with gaps": ("have gaps or repeat", ("model", "vocab", "w3"), 1 << 60),
    "ids that are texts": ("tokenizer.json", ("model", "vocab", "w3"), "7"),
    "words without end": ("tokenizer.json: damaged", MAX_CHARS, float("inf")),
    "words of negative length": ("max_input_chars_per_word is -1", MAX_CHARS, -1),
    "accents that are a text": ("strip_accents is 'sys.exit'", ("normalizer", "strip_accents"), "sys.exit"),
    "half a character": (
        "lone surrogate",
        ("model", "vocab"),
        {token: number for number, token in enumerate([*SPECIAL_TOKENS, "\ud800"])},
    ),
}
PICKLES: dict[str, tuple[str, Callable[[dict[str, torch.Tensor]], Any]]] = {
    "a payload among tensors": ("cannot be read as tensors alone", lambda own: own | {"w": Payload()}),
    "a payload alone": ("cannot be read as tensors alone", lambda _: {"w": Payload()}),
    "lists": ("something other than tensors", lambda _: {"w": [1, 2]}),
    "no names": ("something other than tensors", lambda _: [torch.zeros(2)]),
    "an output matrix of its own": (
        "differs from the word embeddings",
        lambda own: own | {"cls.predictions.decoder.weight": own[EMBEDDINGS] + 1},
    ),
    "NaN in a torch file": ("pooler.dense.bias holds NaN", lambda own: own | {BIAS: own[BIAS] * torch.nan}),
    "one number shown many times": (
        "without all of its numbers",
        lambda own: own | {EMBEDDINGS: torch.zeros(1, 1).expand(10**7, 10**7)},
    ),
    "a sparse tensor": ("pytorch_model.bin", lambda own: own | {EMBEDDINGS: own[EMBEDDINGS].to_sparse()}),
    "a tensor that is nowhere": (
        "pytorch_model.bin",
        lambda own: own | {EMBEDDINGS: torch.zeros(40, 24, device="meta")},
    ),
}
HOSTILE = {
    **{name: Case(text("model.safetensors", content), "cannot be read") for name, content in HEADERS.items()},
    **{
        f"weights {name}": Case(rewritten("model.safetensors", change), "safetensors: cannot be read", LOAD)
        for name, change in CUTS.items()
    },
    **{
        says: Case(changed("config.json", key, to=value), says, LOAD)
        for says, (key, value) in OTHER_CONFIGS.items()
    },
    **{
        f"a config: {sizes}": Case(
            several(*(changed("config.json", key, to=value) for key, value in sizes.items())), says
        )
        for says, sizes in HUGE_CONFIGS.items()
    },
    **{f"an index: {name}": Case(indexed(index), says, LOAD) for name, (index, says) in INDEXES.items()},
    **{
        name: Case(
            weights(lambda own, weight=weight, change=change: own | {weight: change(own[weight])}), says
        )
        for name, (says, weight, change) in OTHER_WEIGHTS.items()
    },
    **{
        f"no {name}": Case(gone(name), f"{name}: no such file", LOAD)
        for name in ("config.json", "model.safetensors")
    },
    "no directory": Case(shutil.rmtree, "no such file", LOAD),
    "a bias of the pooler alone is missing": Case(
        weights(lambda own: {name: value for name, value in own.items() if name != BIAS}),
        f"no weight {BIAS}",
        LOAD,
    ),
    "a config without sizes": Case(
        text("config.json", '{"model_type": "bert"}'), "config.json: vocab_size is missing", LOAD
    ),
    **{
        f"a config of {content!r}": Case(text("config.json", content), "config.json: not a JSON", LOAD)
        for content in (b"{", b"[]", b"\xed\xa0\x80")
    },
    "no tensors": Case(text("model.safetensors", raw({})), "no weight bert.embeddings"),
    "a deep config": Case(text("config.json", DEEP), "config.json: not a JSON"),
    "a config of many digits": Case(text("config.json", "9" * 100_000), "config.json: not a JSON"),
    "a deep tokenizer": Case(text("tokenizer.json", DEEP), "tokenizer.json: not a JSON"),
    **{
        f"{file} of a terabyte": Case(sparse(file), f"{file}: 1,099,511,627,776 bytes, at most", verbs)
        for file, verbs in {
            "config.json": Case.verbs,
            "vocab.txt": ("fill",),
            "tokenizer.json": Case.verbs,
        }.items()
    },
    **{
        f"{file}: {make.__name__}": Case(replaced(file, make), f"{file}: not a regular file", verbs)
        for file, makes, verbs in (
            ("config.json", (PIPE, endless), ANSWERS),
            ("tokenizer.json", (PIPE,), Case.verbs),
            ("model.safetensors", (PIPE, endless, DIRECTORY), Case.verbs),
        )
        for make in makes
    },
    **{
        f"vocab.txt: {make.__name__}": Case(
            several(gone("tokenizer.json"), replaced("vocab.txt", make)), "vocab.txt: not a regular file"
        )
        for make in (PIPE, endless)
    },
    "a config that is a directory": Case(replaced("config.json", DIRECTORY), "config.json"),
    **{
        f"a normalizer: {name}": Case(
            of_tokenizer("normalizer", to=steps),
            "tokenizer.json: the replacements of the normalizer make over 256 characters of one",
        )
        for name, steps in GROWING.items()
    },
    "a decoder that makes a billion characters of one": Case(
        several(
            of_tokenizer("pre_tokenizer", to={"type": "Whitespace"}),
            of_tokenizer("decoder", to={"type": "Sequence", "decoders": [replacement("w", "w" * 10)] * 9}),
        ),
        "tokenizer.json: the replacements of the decoder make over 256 characters of one",
    ),
    **{
        says: Case(
            of_generic_class(
                of_tokenizer("pre_tokenizer", to={"type": "Whitespace"}),
                of_tokenizer("post_processor", to=post_processor),
            ),
            f"tokenizer.json: {says}",
            ("fill", "embed", "import"),
        )
        for says, post_processor in (
            ("puts the id 9999 around texts, but the vocabulary has 40 tokens", ID_9999),
            ("has a segment 9, where encoders know 0 and 1", SEGMENT_9),
        )
    },
    **{name: Case(of_tokenizer(*path, to=value), says) for name, (says, path, value) in TOKENIZERS.items()},
    # pickles; only import reads them
    **{name: Case(torch_file(make), says, TORCH) for name, (says, make) in PICKLES.items()},
    "a payload": Case(
        several(gone("model.safetensors"), text("pytorch_model.bin", pickle.dumps({EMBEDDINGS: Payload()}))),
        "cannot be read as tensors alone",
        TORCH,
    ),
    "a file cut off": Case(
        several(torch_file(dict), rewritten("pytorch_model.bin", lambda data: data[: len(data) // 2])),
        "cannot be read as tensors alone",
        TORCH,
    ),
    "a compressed file": Case(
        several(torch_file(dict), rewritten("pytorch_model.bin", compressed)),
        "compressed, which torch",
        TORCH,
    ),
    "no weights": Case(gone("model.safetensors"), "no weights here", TORCH),
}
COMMANDS = {
    "fill": ["fill", "-m", "{model}", "w1 [MASK]"],
    "embed": ["embed", "-m", "{model}", "texts.txt", "-o", "out.npy"],
} | {verb: [verb, "{model}", "-o", "out"] for verb in ("import", "export")}


def refused(command: list[str], directory: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the one line of a command that is refused with exit code 2 and leaves everything as it was."""
    before = sorted(directory.parent.rglob("*"))
    capsys.readouterr()
    code = main([part.format(model=directory) for part in command])
    error = capsys.readouterr().err
    assert code == 2, error
    assert error.count("\n") == 1
    assert len(error) < 2000
    assert sorted(directory.parent.rglob("*")) == before
    assert (directory.parent / "secret").read_text() == "of another user"
    return error


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.usefixtures("bounded", "in_parent")
def test_malicious_model_is_refused(name, model, capsys):
    case = HOSTILE[name]
    case.spoil(model)
    errors = [refused(COMMANDS[verb], model, capsys) for verb in case.verbs]
    if not errors:
        with pytest.raises(InputError) as caught:
            load_model(model)
        errors = [str(caught.value)]
    for error in errors:
        assert case.says in error
        assert str(model) in error


@pytest.mark.parametrize(
    "name", ["../secret", "/etc/passwd", "1_Pooling/../../secret", "..", "a\0b", "..\\secret"]
)
@pytest.mark.parametrize("command", [["info", "{model}"], *COMMANDS.values()], ids=["info", *COMMANDS])
@pytest.mark.usefixtures("in_parent")
def test_manifest_cannot_name_files_outside(name, command, sealed, capsys):
    record = {"bytes": 15, "sha256": file_io.sha256_of_file(sealed.parent / "secret")}
    changed("manifest.json", "files", name, to=record)(sealed)
    error = refused(command, sealed, capsys)
    assert "manifest.json: names" in error
    assert "is not in" in error


MANIFESTS = {
    "deep": (text("manifest.json", DEEP), "damaged manifest"),
    "a terabyte": (sparse("manifest.json"), "bytes, at most"),
    "a directory": (replaced("manifest.json", DIRECTORY), "manifest.json"),
    "names without files": (changed("manifest.json", "files", to={"a": []}), "damaged manifest"),
    "files that are no table": (changed("manifest.json", "files", to=3), "damaged manifest"),
    "a later format": (changed("manifest.json", "format_version", to=[1e300]), "damaged manifest"),
    "another kind": (changed("manifest.json", "kind", to={"a": 1}), "damaged manifest"),
    "a weight that was exchanged": (text("model.safetensors", raw({})), "in the manifest"),
}


@pytest.mark.parametrize(("spoil", "says"), MANIFESTS.values(), ids=MANIFESTS)
def test_malicious_manifest_is_refused(spoil, says, sealed, capsys):
    spoil(sealed)
    assert says in refused(COMMANDS["fill"], sealed, capsys)


def test_link_of_a_run_cannot_lead_outside(model, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.toml").touch()
    for name in ("../model", str(model), "..", "checkpoints/../../model"):
        file_io.write_link(run / "latest", name)
        with pytest.raises(InputError, match="which is not in"):
            resolve_checkpoint(run)
        (run / "latest").unlink()
        (run / "latest").write_text(name)  # as on a disk without links
        with pytest.raises(InputError, match="which is not in"):
            resolve_checkpoint(run)
    os.truncate(run / "latest", 1 << 40)
    with pytest.raises(InputError, match="bytes, at most"):
        resolve_checkpoint(run)


@pytest.mark.parametrize("kind", ["directory", "link", "cycle", "pipe", "file", "empty file"])
def test_a_link_that_leads_to_no_checkpoint_is_refused_and_not_passed_over(kind, tmp_path):
    (tmp_path / "run.toml").touch()
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "latest").symlink_to("checkpoint")
    best = tmp_path / "best"
    make = {
        "directory": best.mkdir,
        "link": lambda: best.symlink_to("none"),
        "cycle": lambda: best.symlink_to("best"),
        "pipe": lambda: os.mkfifo(best),
        "file": lambda: best.write_text("none"),
        "empty file": best.touch,
    }
    make[kind]()
    with pytest.raises(
        InputError, match=r"best: (is not a link to a checkpoint|names (none|best), which does not|names no )"
    ):
        resolve_checkpoint(tmp_path)


def test_metrics_without_end_are_not_read(tmp_path):
    (tmp_path / "metrics.jsonl").symlink_to("/dev/zero")
    with pytest.raises(InputError, match="not a regular file"):
        read_metrics(tmp_path)


MODULES = {
    "a path upwards": (("../outside", "sentence_transformers.models.Pooling"), "names '../outside'"),
    "a path from the root": (("/outside", "sentence_transformers.models.Pooling"), "names '/outside'"),
    "a module of their own": (("", "trap.Evil"), "the modules Transformer, Evil, Normalize: cloze reads"),
    "a path that is not there": (("2_Pooling", "sentence_transformers.models.Pooling"), "no such file"),
}


@pytest.mark.parametrize(("module", "says"), MODULES.values(), ids=MODULES)
def test_module_path_cannot_lead_outside(module, says, model, capsys):
    (model / "trap.py").write_text("import os; os.mkdir('trap')")
    shutil.copytree(model / "1_Pooling", model.parent / "outside")
    for key, value in zip(("path", "type"), module, strict=True):
        edit_json(model / "modules.json", 1, key, to=value)
    with pytest.raises(InputError) as caught:
        load_sentence_encoder_config(model)
    assert says in str(caught.value)
    assert says in refused(COMMANDS["export"], model, capsys)


@pytest.mark.usefixtures("in_parent")
def test_code_in_a_model_directory_is_not_run(model, tmp_path):
    """A model may bring code for others, which transformers would run if it were told to."""
    changed("config.json", "auto_map", to={"AutoModel": "trap.Model", "AutoConfig": "trap.Config"})(model)
    changed("config.json", "trust_remote_code", to=True)(model)
    changed("tokenizer_config.json", "auto_map", to={"AutoTokenizer": ["trap.T", None]})(model)
    edit_json(model / "modules.json", 1, "type", to="trap.Pooling")
    for folder in (model, model / "1_Pooling"):
        (folder / "trap.py").write_text("import os; os.mkdir('ran')")
    assert main(["fill", "-m", str(model), "w1 [MASK]"]) == 0
    assert load_sentence_encoder_config(model) is not None
    assert main(["import", str(model), "-o", str(tmp_path / "out")]) == 0
    assert not list(tmp_path.rglob("ran"))
    assert not list((tmp_path / "out").rglob("*.py"))


def test_links_of_the_hugging_face_cache_are_followed(sealed, tmp_path):
    """There every file of a snapshot is a link to one that is named by its hash, outside the directory."""
    snapshot, blobs = tmp_path / "snapshots" / "main", tmp_path / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for number, file in enumerate(sorted(sealed.rglob("*"))):
        if file.is_file():
            shutil.copy(file, blobs / str(number))
            link = snapshot / file.relative_to(sealed)
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(os.path.relpath(blobs / str(number), link.parent))
    assert load_model(snapshot).config == CONFIG
    assert artifacts.verify(snapshot).kind == "checkpoint"
    assert load_sentence_encoder_config(snapshot) == load_sentence_encoder_config(sealed)


def test_overwriting_does_not_follow_links(sealed, tmp_path):
    """A link in a directory that is replaced goes; what it leads to stays."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    (sealed / "link").symlink_to(outside)
    source = Path(shutil.copytree(sealed, tmp_path / "source", symlinks=True))
    assert main(["import", str(source), "-o", str(sealed), "--overwrite"]) == 0
    assert (outside / "kept").read_text() == "kept"
    assert not (sealed / "link").exists()


def test_a_panic_of_the_library_is_an_error_of_one_line(model, capsys):
    of_generic_class(of_tokenizer("normalizer", to=replacement({"Regex": r"w*w*w*w*w*w*w*\d"}, "x")))(model)
    error = refused(["fill", "-m", "{model}", f"{'w' * 2000} [MASK]"], model, capsys)
    assert error.startswith("error: tokenizer: cannot tokenize this text: Onig: Regex search error")


def test_control_characters_in_names_are_escaped(model, capsys):
    own = load_file(model / "model.safetensors")
    save_file(own | {"bert.\x1b[2J\r\n\u202e": torch.zeros(1)}, model / "model.safetensors")
    error = refused(COMMANDS["fill"], model, capsys)
    assert "\\x1b[2J" in error
    assert error.rstrip("\n").isprintable()
