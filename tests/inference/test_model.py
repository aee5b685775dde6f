"""One model answers with all of its heads, and has its weights in memory once."""

import subprocess
import sys
from pathlib import Path

import pytest

import cloze
from answering_models import TOKENS
from cloze.inference.model import Model
from cloze.models.bert import BertModel
from cloze.models.heads import BertForPreTraining
from cloze.serving.served_model import ServedModel
from tiny_models import tiny_config, write_checkpoint

LOAD_SERVED_MODEL = """
import sys
from pathlib import Path
import cloze
cloze.configure_process("requests")  # as the server does
from cloze.serving.served_model import ServedModel

def memory(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

small, large = map(Path, sys.argv[1:3])
ServedModel.load("small", small, precision=sys.argv[3])  # imports and buffers
Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
before = memory("VmRSS")
served = ServedModel.load("large", large, precision=sys.argv[3])
print((memory("VmHWM") - before) / (large / "model.safetensors").stat().st_size)
"""


def test_all_heads_share_the_encoder(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path / "model", BertForPreTraining(BertModel(tiny_config(TOKENS))), TOKENS)
    model = Model.open(path, device="cpu")
    fill_mask, next_sentence = cloze.FillMask(model), cloze.NextSentence(model)
    assert fill_mask.module is not next_sentence.module
    assert fill_mask.encoder is next_sentence.encoder is model.encoder
    assert fill_mask("a [MASK]") == cloze.FillMask.load(path, device="cpu")("a [MASK]")
    assert next_sentence("a", "b") == cloze.NextSentence.load(path, device="cpu")("a", "b")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads /proc")
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_served_model_is_in_memory_once_even_while_it_is_loaded(precision: str, tmp_path: Path) -> None:
    sizes = {"hidden_size": 512, "num_hidden_layers": 8, "num_attention_heads": 8, "intermediate_size": 2048}
    models = []
    for name, config in (("small", tiny_config(TOKENS)), ("large", tiny_config(TOKENS, **sizes))):
        models.append(write_checkpoint(tmp_path / name, BertForPreTraining(BertModel(config)), TOKENS))
        if precision == "int8":
            ServedModel.load(
                name, models[-1], device="cpu", precision=precision
            )  # traced once, for the cache
    command = [sys.executable, "-c", LOAD_SERVED_MODEL, *map(str, models), precision]
    copies = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert float(copies) < 1.3
