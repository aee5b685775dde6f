"""A pre-training run, from settings to a checkpoint that other programs load."""

import json
import math
import re
import shutil
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.overrides import TorchFunctionMode

import cloze
from cloze import artifacts
from cloze import config as configuration
from cloze.api.settings import find_initial_checkpoint
from cloze.data.batch import DataPosition, Integers, PretrainingBatch
from cloze.data.dataset import Dataset
from cloze.data.instances.instances import DynamicInstances
from cloze.data.instances.masking import MaskingConfig
from cloze.data.instances.pairs import PairsConfig
from cloze.errors import DataWarning, InputError
from cloze.model_paths import resolve_checkpoint
from cloze.models import encoder
from cloze.models.checkpoint import load_model, save_model
from cloze.models.heads import BertForMaskedLM, BertForPreTraining
from cloze.pretraining.config import GoogleInstancesConfig, ModelConfig, PhaseConfig, PretrainConfig
from cloze.pretraining.data import PretrainingBatches, PretrainingData, unigram_nats
from cloze.pretraining.evaluation import PretrainingEvaluationConfig, evaluate_pretrained
from cloze.pretraining.initial_weights import load_for_pretraining
from cloze.pretraining.run import plan_pretraining
from cloze.progress import Progress
from cloze.tokenization.loading import load_tokenizer
from cloze.training.checkpoints import CheckpointConfig, read_state
from cloze.training.distributed import DistributedContext
from cloze.training.metrics_log import read_metrics
from cloze.training.optimizer import MuonConfig
from corpora import save_vocabulary
from helpers import flip_bit
from runs import assert_same_run, assert_same_weights, pretrain, resume_pretraining, rows, weights

RECIPES = sorted((Path(__file__).resolve().parents[2] / "src/cloze/recipes").glob("*.toml"))


def test_run_learns_and_its_checkpoint_fills_masks(nano, finished):
    measured = json.loads((finished.parent / "measured.json").read_text())
    train = rows(finished)
    losses = {"masked_lm_loss", "next_sentence_loss"}
    assert losses | {"learning_rate", "gradient_norm", "tokens_per_second"} <= set(train[0])
    assert train[0]["masked_lm_loss"] == pytest.approx(math.log(700), rel=0.05)
    assert train[0]["next_sentence_loss"] == pytest.approx(math.log(2), rel=0.1)
    assert measured["masked_lm_loss"] < train[0]["masked_lm_loss"] - 0.1
    assert 0 < measured["masked_lm_unigram_loss"] < math.log(700)
    assert {row["phase"] for row in train} == {0, 1}
    assert (finished / "environment.json").exists()
    artifacts.verify(resolve_checkpoint(finished, "latest"), kind="checkpoint")
    assert read_metrics(finished)[-1] == {"kind": "end", "step": 24}

    (candidates,) = cloze.FillMask.load(finished)("The [MASK] of the house.", top_k=7)
    assert len(candidates) == 7
    assert candidates[0].probability >= candidates[1].probability
    assert 0 < cloze.NextSentence.load(finished)("He came.", "He left.").probability < 1

    card = (resolve_checkpoint(finished, "latest") / "README.md").read_text("utf-8")
    settings = configuration.load(PretrainConfig, finished / "run.toml")
    assert f"`{settings.data_sha256}`" in card
    assert f"| masked lm loss | {measured['masked_lm_loss']:.4f} |" in card
    assert card.startswith("---\nlicense: cc0-1.0\n")
    assert configuration.to_toml(settings).strip() in card
    assert "\n| 24 |" in card, "the curve ends at the last step"


@pytest.mark.slow
def test_run_toml_reproduces_the_run_bit_identically(finished, tmp_path):
    again = configuration.load(PretrainConfig, finished / "run.toml")
    assert again.data_sha256 is not None
    pretrain(again, tmp_path / "again")
    assert_same_weights(finished, tmp_path / "again")


def test_unigram_loss_counts_each_token_once_more():
    assert unigram_nats(np.array([3, 0])).tolist() == pytest.approx([-math.log(4 / 5), -math.log(1 / 5)])


class HostReads(TorchFunctionMode):
    """Counts the calls that wait for an accelerator to finish what is queued."""

    waits = (Tensor.item, Tensor.tolist, Tensor.cpu, Tensor.numpy, Tensor.nonzero, Tensor.__bool__)
    waits += (Tensor.__float__, Tensor.__int__, Tensor.__index__)

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        self.count += function in self.waits
        return function(*arguments, **(keywords or {}))


@pytest.mark.parametrize("micro_batch_tokens", [64, 4096])
def test_a_step_waits_once_for_the_device(quiet, tmp_path, monkeypatch, micro_batch_tokens):
    monkeypatch.setattr(encoder, "check_ids", lambda *_: None)  # which reads ids on a CPU alone
    optimizer = replace(quiet.optimizer, muon=MuonConfig(), bias_correction=True)
    evaluation = replace(quiet.evaluation, times=1)
    config = replace(quiet, micro_batch_tokens=micro_batch_tokens, optimizer=optimizer, evaluation=evaluation)
    waits = []
    for steps in (1, 3):
        with HostReads() as reads:
            pretrain(replace(config, steps=steps), tmp_path / str(steps))
        waits.append(reads.count)
    assert waits[1] - waits[0] == 2


@pytest.mark.protected
def test_transformers_loads_the_checkpoint(finished):
    transformers = pytest.importorskip("transformers")
    directory = finished
    model, report = transformers.AutoModelForPreTraining.from_pretrained(directory, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    text = "The [MASK] of the house."
    with torch.no_grad():
        logits = model.eval()(**tokenizer(text, return_tensors="pt")).prediction_logits[0]
    position = tokenizer(text)["input_ids"].index(tokenizer.mask_token_id)
    (ours,) = cloze.FillMask.load(directory)(text, top_k=3)
    theirs = logits[position].softmax(-1).topk(3)
    assert [c.token for c in ours] == tokenizer.convert_ids_to_tokens(theirs.indices.tolist())
    np.testing.assert_allclose([c.probability for c in ours], theirs.values.numpy(), rtol=1e-5)


@pytest.mark.slow
def test_googles_instances_are_built_once(nano, tmp_path):
    config = replace(nano, google_instances=GoogleInstancesConfig(dupe_factor=2), steps=8)
    measured = pretrain(config, tmp_path / "run")
    assert math.isfinite(measured["loss"])
    built = sorted((tmp_path / "run" / "instances").iterdir())
    assert [path.name[:8] for path in built] == ["phase-1-", "phase-2-"]
    for path in built:
        artifacts.verify(path, kind="instances")
    flip_bit(built[1] / "order.arrow")
    with pytest.raises(InputError, match=r"order\.arrow: damaged"):
        resume_pretraining(tmp_path / "run")


@pytest.mark.slow
def test_run_with_init_is_evaluated_first_and_says_the_change(nano, finished, tmp_path, capsys):
    first = finished
    end = rows(first, "validation")[-1]
    better = replace(nano, steps=24, init=str(first))
    measured = pretrain(better, tmp_path / "better", progress=Progress())
    step_0 = rows(tmp_path / "better", "validation")[0]
    assert (step_0["step"], step_0["masked_lm_loss"]) == (0, pytest.approx(end["masked_lm_loss"], rel=1e-5))
    printed = capsys.readouterr().err
    before, after = step_0["masked_lm_loss"], measured["masked_lm_loss"]
    change = f"fell by {before - after:.3f}, from {before:.3f} to {after:.3f}"
    assert f"the held-out loss on masked words {change}\n" in printed
    assert all(len(line) <= 100 for line in printed.splitlines() if "held-out: " in line)
    assert "unigram" not in printed

    harmful = replace(better, optimizer=replace(nano.optimizer, learning_rate=0.5))
    pretrain(harmful, tmp_path / "worse", progress=Progress())
    printed = capsys.readouterr().err
    assert "the held-out loss on masked words rose by" in printed
    assert f"the best checkpoint is that of step 0: {before:.3f}" in printed
    best = resolve_checkpoint(tmp_path / "worse", "best")
    assert best.name == "step-00000000"
    assert all(
        torch.equal(tensor, weights(first)[name])
        for name, tensor in load_file(best / "model.safetensors").items()
    )


def test_plan_with_init_has_the_evaluation_before_the_first_step(nano, finished):
    config = replace(nano, steps=4, evaluation=replace(nano.evaluation, times=2))
    seconds = []
    for init in (None, str(finished)):
        initialized = replace(config, init=init)
        ticking = Progress(quiet=True, clock=count().__next__)
        plan = plan_pretraining(initialized, find_initial_checkpoint(initialized), progress=ticking)
        seconds.append(plan.evaluation_seconds)
    assert seconds[1] / seconds[0] == pytest.approx(3 / 2)


@pytest.mark.slow
def test_run_with_init_resumes_bit_identically_from_step_0(finished, pretrained):
    settings = {"steps": 4, "init": str(finished), "checkpoints": CheckpointConfig(keep_newest=9)}
    whole, run = pretrained("whole", **settings), pretrained("cut", **settings)
    for checkpoint in sorted((run / "checkpoints").iterdir())[1:]:
        shutil.rmtree(checkpoint)
    assert (run / "checkpoints/step-00000000").is_dir()
    resume_pretraining(run)
    assert_same_run(whole, run)


@pytest.mark.slow
def test_few_held_out_instances_are_warned_of(nano, novel, dataset, tmp_path, capsys):
    config = replace(nano, steps=2, evaluation=replace(nano.evaluation, times=1, max_instances=2000))
    pretrain(config, tmp_path / "run", progress=Progress())
    (warning,) = re.findall(
        r"warning: (\d+) held-out documents make (\d+) instances: losses are uncertain; "
        "build the data set of more text, or hold more documents out",
        capsys.readouterr().err,
    )
    documents, instances = map(int, warning)
    assert 0 < documents <= instances < 200

    data = tmp_path / "data"
    cloze.build_dataset(novel, vocabulary=dataset, output=data, format="paragraphs", validation_fraction=0.7)
    pretrain(replace(config, data=str(tmp_path / "data")), tmp_path / "again", progress=Progress())
    assert "held-out documents make" not in capsys.readouterr().err


def test_run_with_init_has_its_own_dropout_and_the_architecture_of_the_checkpoint(nano, finished, pretrained):
    dropout = {"hidden_dropout_prob": 0.25, "attention_probs_dropout_prob": 0.0}
    model = replace(nano.model, num_hidden_layers=3, **dropout)
    second = pretrained(steps=1, init=str(finished), model=model)
    written = configuration.load(PretrainConfig, second / "run.toml").model.encoder(vocab_size=7)
    assert written == replace(nano.model.encoder(vocab_size=7), **dropout)
    before, after = (load_model(resolve_checkpoint(run)).config for run in (finished, second))
    assert before != after == replace(before, **dropout)
    assert rows(second, "validation")[0]["step"] == 0


def test_masked_lm_checkpoint_continues_without_pairs(finished, pretrained, tmp_path):
    checkpoint = resolve_checkpoint(finished, "latest")
    masked = tmp_path / "masked"
    with artifacts.write_directory(masked, kind="checkpoint") as directory:
        save_model(directory, load_model(checkpoint, BertForMaskedLM), load_tokenizer(checkpoint))
    message = r"no weight .*Say `pairs.next_sentence=false`: masked words alone"
    with pytest.raises(InputError, match=message):
        pretrained("second", steps=2, init=str(masked))
    loaded = load_for_pretraining(masked, next_sentence=False, seed=0).state_dict()
    expected = load_model(masked, BertForMaskedLM).state_dict()
    assert all(torch.equal(loaded[name], weight) for name, weight in expected.items())
    without_pairs = PairsConfig(next_sentence=False)
    assert cloze.FillMask.load(pretrained("second", steps=2, init=str(masked), pairs=without_pairs))


@pytest.mark.slow
def test_causal_encoder_is_trained_evaluated_and_refused_for_filling(nano, tmp_path):
    run = tmp_path / "run"
    causal = replace(nano.model, attends_to="left")
    config = replace(nano, steps=24, model=causal, pairs=PairsConfig(next_sentence=False))
    measured = pretrain(config, run)
    assert measured["masked_lm_loss"] < math.log(400)
    model = load_model(resolve_checkpoint(run, "latest"), BertForPreTraining)
    assert model.config.attends_to == "left"
    settings = PretrainingEvaluationConfig(max_seq_length=64, max_instances=40, pairs=config.pairs)
    found = evaluate_pretrained(resolve_checkpoint(run), [config.data], settings, device="cpu")
    assert found.masked_lm["masked_lm_loss"] == pytest.approx(measured["masked_lm_loss"], rel=1e-4)
    with pytest.raises(InputError, match="a model without the masked-word head"):
        cloze.FillMask.load(run, device="cpu")
    with pytest.raises(InputError, match=r"attends to left, the settings to all.*attends_to=left"):
        pretrain(replace(nano, steps=2, init=str(run)), tmp_path / "on")


def change_settings(run: Path, *overrides: str) -> None:
    settings = configuration.load(PretrainConfig, run / "run.toml", overrides)
    (run / "run.toml").write_text(configuration.to_toml(settings))


IMMUTABLE = (
    *("optimizer.muon.weight_decay=0.1", "optimizer.bias_correction=true", "model.hidden_size=48"),
    *("steps=4", "seed=4", "masking.masked_lm_prob=0.2"),
)


def test_changed_immutable_settings_are_refused(copy, finished):
    settings = (finished / "run.toml").read_text()
    for checkpoints in (True, False):
        if not checkpoints:  # as before the first one
            for checkpoint in (copy / "checkpoints").iterdir():
                shutil.rmtree(checkpoint)
        for change in IMMUTABLE:
            (copy / "run.toml").write_text(settings)
            change_settings(copy, change)
            message = rf"run\.toml: differs from .*{re.escape(change.partition('=')[0])} is .*Copy it over"
            with pytest.raises(InputError, match=message):
                resume_pretraining(copy)


def test_phase_without_steps_little_training_and_changed_machine_are_warned_of(nano, tmp_path, capsys):
    run = tmp_path / "run"
    phases = tuple(
        PhaseConfig(max_seq_length=length, fraction=share, batch_size=4)
        for length, share in ((16, 0.9), (32, 0.1))
    )
    measured = pretrain(replace(nano, steps=2, phases=phases), run, progress=Progress())
    printed = capsys.readouterr().err
    assert "sequences of up to 32 tokens have 10% of the run, and get none of its 2 steps" in printed
    loss, frequencies = measured["masked_lm_loss"], measured["masked_lm_unigram_loss"]
    what = f"masked LM loss {loss:.3f} is above {frequencies:.3f}, that of word frequencies alone"
    assert printed.count(f"{what}. Train longer, or with a higher optimizer") == 1
    file = run / "environment.json"
    elsewhere = json.loads(file.read_text()) | {"processor": "another"}
    file.write_text(json.dumps(elsewhere))
    resume_pretraining(run, progress=Progress())
    assert "warning: processor changed since" in capsys.readouterr().err
    assert json.loads(file.read_text())["earlier"] == [elsewhere]


@pytest.mark.parametrize(
    ("released", "size"),
    [(ModelConfig(size="mini"), "mini"), (ModelConfig(size="mini", hidden_size=128), "base")],
)
def test_architecture_is_named_by_its_released_size(released, size):
    encoder = released.encoder(vocab_size=7)
    written = ModelConfig().with_architecture(encoder)
    assert written.size == size
    assert written.encoder(vocab_size=7) == encoder
    with pytest.raises(ValueError, match="without a size, set all of num_hidden_layers"):
        ModelConfig(size=None)


def test_checkpoint_limits_the_sequence_length_of_init(nano, finished, pretrained):
    overrides = ["data=somewhere", "steps=10", "phases=[{max_seq_length=1024, fraction=1.0}]", "init=there"]
    assert configuration.load(PretrainConfig, None, overrides).phases[0].max_seq_length == 1024
    run = finished
    phases = (replace(nano.phases[0], max_seq_length=65, fraction=1.0),)
    with pytest.raises(InputError, match=r"phases: max_seq_length 65, but .*run has 64") as caught:
        pretrained("longer", init=str(run), phases=phases)
    overrides[2] = caught.value.remedy.removeprefix("Say ").strip("`")
    assert not (run.parent / "longer").exists()
    short = configuration.load(PretrainConfig, None, overrides).phases
    pretrained("shorter", steps=1, init=str(run), phases=short)


@pytest.mark.parametrize("documents", [["The dog.\nIt was a dog.", "He left."], ["The dog."] * 9])
def test_few_or_short_documents_train_without_pairs(nano, dataset, tmp_path, monkeypatch, documents):
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("\n\n".join(f"{n} {text}" for n, text in enumerate(documents)))
    with pytest.warns(DataWarning, match="fewer than 4 documents have two sentences"):
        cloze.build_dataset("text", vocabulary=dataset, output="data")
    config = replace(nano, data="data", steps=2)
    with pytest.raises(InputError, match=r"data: fewer than 4 .* `pairs\.next_sentence=false"):
        pretrain(config, Path("run"))
    Path("here").mkdir()
    monkeypatch.chdir("here")  # the run may be the current directory
    without = replace(config, data="../data", pairs=PairsConfig(next_sentence=False))
    measured = pretrain(without, Path())
    assert measured["loss"] == measured["masked_lm_loss"] > 0
    assert "next_sentence_loss" not in measured
    assert read_state(resolve_checkpoint(tmp_path / "here", "latest")).step == 2


WORDS = "北京大学的生他来到"


@pytest.mark.parametrize("segmenter", [None, "words_of_two:cut"])
def test_words_of_chinese_are_said_to_be_characters(nano, tmp_path, capsys, monkeypatch, segmenter):
    cut = "def cut(text):\n    return [text[i : i + 2] for i in range(0, len(text), 2)]\n"
    (tmp_path / "words_of_two.py").write_text(cut)
    monkeypatch.chdir(tmp_path)
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join(f"{WORDS[n % 9 :] * 3}\n{WORDS * (n % 5 + 1)}" for n in range(60)))
    settings = {"vocabulary": save_vocabulary(tmp_path / "vocabulary", WORDS), "validation_fraction": 0.2}
    cloze.build_dataset(text, output=tmp_path / "data", segmenter=segmenter, **settings)
    masking = MaskingConfig(whole_word=True)
    pretrain(
        replace(nano, data=str(tmp_path / "data"), masking=masking, steps=2),
        tmp_path / "run",
        progress=Progress(),
    )
    told = capsys.readouterr().err
    said = "of the tokens are of scripts without spaces, where a word is one Chinese character"
    assert (said in told) == (segmenter is None)
    assert (tmp_path / "run" / "latest").exists()


class Recorded(DynamicInstances):
    """Notes which instances were asked for."""

    def batch(self, epoch: int, positions: Integers, **settings: float) -> PretrainingBatch:
        self.asked += [(epoch, int(position)) for position in positions]
        return DynamicInstances.batch(self, epoch, positions, **settings)


def test_each_instance_is_read_by_exactly_one_rank(nano):
    """Over three epochs at 1, 2 and 3 ranks in turn: the instances of each step are those of one rank, each once."""
    dataset = Dataset.open(Path(nano.data))

    def batches(rank: int, size: int) -> tuple[PretrainingBatches, Recorded]:
        phase = replace(nano.phases[0], fraction=1.0, batch_size=30)
        documents, tokenizer = dataset.split("train"), load_tokenizer(dataset.path)
        settings = {"pairs": nano.pairs, "masking": nano.masking, "seed": 1, "phase": 0}
        source = Recorded(documents, tokenizer, phase.max_seq_length, None, **settings)
        source.asked = []
        context = DistributedContext(torch.device("cpu"), rank, size)
        return PretrainingBatches([(phase, source)], context), source

    reference, expected = batches(0, 1)
    position, where = DataPosition(), DataPosition()
    step = 0
    while position.epoch < 3:
        size = (1, 2, 3)[step % 3]  # the last step of an epoch is cut unevenly by two
        step += 1
        expected.asked.clear()
        where = reference.step_data(0.0, where, 256).next_position
        asked = []
        for rank in range(size):
            own, source = batches(rank, size)
            data = own.step_data(0.0, position, 256)
            assert len(source.asked) == 30 // size
            asked += source.asked
        position = data.next_position
        assert position == where
        assert sorted(asked) == sorted(expected.asked)


def test_ranks_that_do_not_divide_the_batch_are_refused(nano):
    for rank in (0, 3):
        with pytest.raises((InputError, SystemExit)) as refused:
            PretrainingData.load(nano, DistributedContext(torch.device("cpu"), rank, 4))
        if rank:  # one rank says it
            assert refused.value.code == 2
        else:
            message = "torchrun: 4 ranks cannot share a batch of 6 evenly. Start a number that divides 6 and"
            assert str(refused.value).startswith(message)


@pytest.mark.slow
def test_texts_are_resumed_wherever_a_kill_left_their_run(finished, tmp_path):
    texts = [f"The dog {n} was a dog.\nHe left {n} dogs." for n in range(40)]
    run, data, init = tmp_path / "a/run", tmp_path / "a/run-data", finished
    settings = {"phases": [{"max_seq_length": 64, "fraction": 1.0, "batch_size": 8}]}
    new = partial(cloze.pretrain, output=run, init=init, steps=1, device="cpu", settings=settings)
    cloze.build_dataset(vocabulary=init, output=data, texts=texts)
    with pytest.raises(InputError, match="run-data: already exists"):
        new(texts=texts)
    with pytest.raises(InputError, match=r"texts: are not the texts of .*run-data\. Give"):
        new(texts=texts[1:], resume=True)
    assert not run.exists()
    losses = new(texts=iter(texts), resume=True)
    assert new(texts=texts, resume=True) == losses
    with pytest.raises(InputError, match="texts: are not the texts of"):
        new(texts=texts[1:], resume=True)
    shutil.rmtree(data)
    assert new(texts=texts, resume=True) == losses


@pytest.mark.protected
def test_original_recipe_has_the_papers_and_googles_settings():
    recipe = next(path for path in RECIPES if path.stem == "original")
    config = configuration.load(PretrainConfig, recipe, ["data=somewhere", "steps=1000000"])
    phases = [(p.max_seq_length, p.fraction, p.batch_size, p.max_predictions_per_seq) for p in config.phases]
    assert phases == [(128, 0.9, 256, 20), (512, 0.1, 256, 77)]
    assert config.phases == configuration.load(PretrainConfig, None, ["data=somewhere", "steps=10"]).phases
    assert config.google_instances is not None
    assert config.google_instances.dupe_factor == 10
    assert (config.masking.masked_lm_prob, config.masking.mask_token_prob) == (0.15, 0.8)
    assert (config.masking.random_token_prob, config.masking.whole_word) == (0.1, False)
    assert (config.pairs.short_seq_prob, config.pairs.next_sentence) == (0.1, True)
    encoder = config.model.encoder(vocab_size=30_522)
    assert (encoder.hidden_act, encoder.layer_norm_eps) == ("gelu_tanh", 1e-12)
    assert (encoder.hidden_dropout_prob, encoder.attention_probs_dropout_prob) == (0.1, 0.1)
    optimizer = config.optimizer
    assert (optimizer.learning_rate, optimizer.weight_decay, optimizer.epsilon) == (1e-4, 0.01, 1e-6)
    assert (optimizer.beta1, optimizer.beta2, optimizer.bias_correction) == (0.9, 0.999, False)
    assert (optimizer.warmup_fraction, optimizer.max_grad_norm, optimizer.muon) == (0.01, 1.0, None)
