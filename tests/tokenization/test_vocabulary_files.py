"""Vocabularies as people have them: ids are those of transformers, and each printed remedy keeps them."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import BertTokenizer

from cloze.errors import InputError
from cloze.tokenization.loading import load_tokenizer
from cloze.tokenization.special_tokens import SPECIAL_TOKENS

WORDS = ["good", "bad", "film", "##s", "book"]


def write(directory: Path, tokens: list[str], *, embeddings: int | None = None, end: str = "\n") -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "vocab.txt").write_bytes("".join(token + end for token in tokens).encode())
    if embeddings is not None:
        (directory / "config.json").write_text(json.dumps({"model_type": "bert", "vocab_size": embeddings}))
    return directory


def assert_ids_are_those_of_transformers(directory: Path) -> None:
    theirs = BertTokenizer.from_pretrained(directory).get_vocab()
    ours = load_tokenizer(directory).tokens
    assert all(ours[number] == token.strip() for token, number in theirs.items() if token.strip())


LINES = st.lists(st.sampled_from(["", " ", *WORDS, "good ", "\u2028x"]), max_size=9)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*empty or repeated tokens")
@given(lines=LINES, end=st.sampled_from(["\n", "\r\n", " \n"]))
def test_ids_are_those_of_transformers(tmp_path_factory, lines, end):
    tokens = [*SPECIAL_TOKENS, *lines, "end"]
    directory = tmp_path_factory.mktemp("vocabulary")
    assert_ids_are_those_of_transformers(write(directory, tokens, embeddings=len(tokens), end=end))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["good", "", "bad"], "tokens: 1, .* id 6: all"),
        (["good", "bad", "good", "\t"], "tokens: 2, .* id 5: all"),
    ],
)
def test_a_line_without_a_token_keeps_its_id(tmp_path, lines, said):
    tokens = [*SPECIAL_TOKENS, *lines, "end"]
    write(tmp_path, tokens, embeddings=len(tokens))
    with pytest.warns(UserWarning, match=said):
        tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.vocab_size == len(tokens)
    tokenizer.save(tmp_path)  # as cloze import does it
    assert_ids_are_those_of_transformers(tmp_path)
    assert load_tokenizer(tmp_path).tokens == tokenizer.tokens


def test_lines_without_an_embedding_are_refused(tmp_path):
    tokens = [*SPECIAL_TOKENS, "good", "", "bad", "", "end"]
    for embeddings in (9, 8):
        write(tmp_path, tokens, embeddings=embeddings)
        with pytest.raises(InputError, match=rf"10 lines, 2 of them .* has {embeddings} embeddings"):
            load_tokenizer(tmp_path)


@pytest.mark.parametrize("lines", [["good", "", "bad", "", "end"], ["good", "bad", "good", "bad", "end"]])
def test_the_remedy_keeps_all_ids(tmp_path, lines):
    tokens = [*SPECIAL_TOKENS, *lines]
    write(tmp_path, tokens)
    expected = {token: number for number, token in enumerate(tokens) if token}
    for _ in range(2):
        with pytest.raises(InputError, match=r"empty line|already") as raised:
            load_tokenizer(tmp_path)
        placeholder, line = re.search(r"Write (\S+) in line (\d+):", raised.value.remedy).groups()
        tokens[int(line) - 1] = placeholder
        write(tmp_path, tokens)
    found = {token: number for number, token in enumerate(load_tokenizer(tmp_path).tokens)}
    assert found.items() >= expected.items()


@pytest.mark.parametrize("content", ["\ufeff{}\n", "{}\r\n", "{}\n\n\n", "{}\r"])
def test_marks_line_ends_and_blank_lines_at_the_end_do_not_count(tmp_path, content):
    tokens = [*SPECIAL_TOKENS, *WORDS]
    end = "\r" if content.endswith("}\r") else "\n"
    (tmp_path / "vocab.txt").write_bytes(content.format(end.join(tokens)).encode())
    assert list(load_tokenizer(tmp_path).tokens) == tokens


@pytest.mark.skipif(shutil.which("iconv") is None, reason="needs iconv")
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16le", "latin-1"])
def test_the_remedy_for_another_encoding_works(tmp_path, encoding):
    tokens = [*SPECIAL_TOKENS, "né", *WORDS]
    file = tmp_path / "vocab.txt"
    file.write_bytes("".join(f"{token}\n" for token in tokens).encode(encoding))
    with pytest.raises(InputError, match="UTF-8") as raised:
        load_tokenizer(tmp_path)
    command = re.search("iconv .* OLD > NEW", raised.value.remedy)[0].replace("OLD > NEW", "vocab.txt > NEW")
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    (tmp_path / "NEW").rename(file)
    assert list(load_tokenizer(tmp_path).tokens) == tokens


@pytest.mark.filterwarnings("ignore:.*empty or repeated tokens")
def test_gaps_in_a_tokenizer_json_keep_their_ids(tmp_path):
    """As transformers writes it from a vocabulary with a repeated token."""
    tokens = [*SPECIAL_TOKENS, "good", "bad", "", "good", "film"]
    write(tmp_path, tokens, embeddings=len(tokens))
    BertTokenizer.from_pretrained(tmp_path).save_pretrained(tmp_path)
    assert (tmp_path / "tokenizer.json").exists()
    assert_ids_are_those_of_transformers(tmp_path)
