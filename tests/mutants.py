"""Change the code in one place, and see that a quick test fails: `python tests/mutants.py [TEXT]`."""

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent
COMMAND = (sys.executable, "-B", "-m", "pytest", "-q", "-x", "-m", "not slow and not exhaustive")

# file in src/cloze | text, once in the file | its replacement | file in tests, without .py
MUTANTS = """
finetuning/finetune.py | -math.inf if | math.inf if | finetuning/test_hyperparameter_search
tasks/answers/tags.py | math.prod(probabilities | min(probabilities | tasks/test_tagging_formats
data/reading/tag_schemes.py | STRAY_SHARE = 0.01 | STRAY_SHARE = 0.1 | tasks/test_conll_files
data/reading/tagged_text.py | numbers[0] >= len(places) | numbers[0] > len(places) | tasks/test_conll_files
tasks/answers/vectors.py | = normalize(pooled[ | = (normalize(pooled)[ | tasks/families/test_sentence_vectors
tasks/calibration.py | NUM_BINS = 15 | NUM_BINS = 10 | tasks/test_calibration
tasks/answers/label_set.py | if value > self.threshold | if value >= self.threshold | tasks/test_families
data/reading/tables.py | SHARE = 10, 0.01 | SHARE = 10, 0.1 | data/reading/test_tables
finetuning/config.py | self.seeds > 2**31: | self.seeds > 2**32: | test_limits
training/step.py | self.num_skipped = 0 | pass | training/test_loop
pretraining/objective.py | len(batch.next_sentence_labels) | len(batch.masked_lm_ids) | pretraining/test_pretrain
pretraining/data.py | counts = 1.0 + | counts = 0.5 + | pretraining/test_pretrain
pretraining/evaluation.py | max(random_share, 1 - random_share) | random_share | pretraining/test_evaluate_pretrained
pretraining/initial_weights.py | new.vocab_size < old | new.vocab_size + 1 < old | pretraining/test_vocabulary_growth
training/metric_sums.py | norm for step in steps) / | norm for step in steps[:1]) / | training/test_loop
data/instances/masking.py | len(is_continuation) | (len(is_continuation) - 1) | data/instances/test_instances_reference
data/instances/instances.py | * (surplus + 1) | * surplus | data/instances/test_instances
reports/run_report.py | median(metric | max(metric | reports/test_run_report
export/graph.py | MAX_INT8, INT8_LIMIT = 127, 63 | MAX_INT8, INT8_LIMIT = 127, 31 | export/test_onnx_export
models/modern_bert.py | = config.local_attention // 2 | = config.local_attention // 4 | models/test_modern_bert
models/attention.py | value_CNLH, bias_NLL, scale=1.0 | value_CNLH, None, scale=1.0 | models/test_attention
tokenization/wordpiece_trainer.py | ROUNDS = 4 | ROUNDS = 3 | tokenization/test_wordpiece_vocabulary
data/reading/squad.py | if start < 0 or context | if context | tasks/test_data_cases
data/reading/columns.py | not 0 <= cell < len(names) | not cell < len(names) | tasks/test_class_names
data/reading/annotations.py | for other in others) and | for other in others[:1]) and | tasks/test_data_cases
data/reading/formats.py | named is not None and entry.is_text_file | named is not None | tasks/test_data_cases
data/instances/masking.py | highest_B) & maskable_BL | highest_B) | data/instances/test_instances_reference
data/build/corpus.py | if info.has_words != (config | if info.has_words and not (config | data/build/test_segmenter
tokenization/tokenizer_files.py | not in ("[]", "<>") | not in ("[]",) | tokenization/test_tokenizer
file_io.py | MAX_JSON_BYTES = 1 << 26 | MAX_JSON_BYTES = 1 << 22 | test_artifacts
data/reading/annotations.py |  or a.get("skipped")) | ) | tasks/test_examples_golden
data/reading/annotations.py | if status == "submitted" | if status != "discarded" | tasks/test_data_cases
inference/embedder.py | starts_word_L[:1] = True | pass | inference/test_other_families
serving/connections.py | files // 2 | files | serving/test_connections
serving/limits.py | body_seconds: Seconds = 10.0 | body_seconds: Seconds = 100.0 | serving/test_connections
serving/native.py | [estimate_tokens(text) ** 2 | [estimate_tokens(text) | serving/test_turns
serving/served_model.py | excess > 0)]) | excess > 1)]) | serving/test_recorded_answers
serving/dialects.py | if len(places) == 1 else | if places else | serving/test_recorded_answers
serving/queue.py | tokens + job.tokens <= | tokens <= | serving/test_queue
serving/queue.py | self._num_admitted - self._model.num_running | self._num_admitted | serving/test_queue
serving/routes.py | _MAX_KEYS = 64 | _MAX_KEYS = 6400 | serving/test_middleware
cli/parameters.py | _MAX_DIGITS = 18 | _MAX_DIGITS = 19 | cli/test_number_flags
metrics/classification.py | return len(answers) > 1 | return len(answers) > 2 | metrics/test_classification_metrics
tokenization/sentences.py | _MAX_NUMBER_CHARACTERS = 5 | _MAX_NUMBER_CHARACTERS = 4 | tokenization/test_sentences
data/shards.py | num_ids = max( | num_ids = min( | data/test_dataset
serving/limits.py | max_batch_texts: Positive[int] = 2048 | max_batch_texts: Positive[int] = 2049 | docs/test_site
hub.py | if status >= 500 | if status > 500 | test_hub
process.py | quota > 0 and period | period | test_process
tasks/answers/kind.py | factor * np | np | tasks/test_families
training/run.py | now_used - used if | now_used if | training/test_loop
data/build/part_files.py | total + record[name] | record[name] | data/build/test_finalize
data/build/duplicates.py | CHARACTERS = 100 | CHARACTERS = 101 | data/build/test_finalize
tokenization/loading.py | if (directory / MANIFEST).exists(): | if False: | data/build/test_vocabulary
cli/training.py | ("error_before", "error") | ("error", "error_before") | tasks/test_calibration
export/onnx.py | RELATIVE_TOLERANCE = 1e-5 | RELATIVE_TOLERANCE = 1e-3 | export/test_onnx_export
hub.py |  and "/" not in name} | } | test_hub
inference/pretrained_heads.py | [:, : self.tokenizer.vocab_size] | [:] | inference/test_load
inference/pretrained_scores.py | len(scores) - empty | len(scores) | cli/test_cli_evaluate_score
models/distilbert.py | "attention_dropout" | "dropout" | models/test_encoder_parity
options.py | and count them.", False | and count them.", True | cli/test_same_functions
serving/server.py | {16,8192} | {5,8192} | serving/test_operations
finetuning/preparation.py | max_seq_length > positions | max_seq_length > positions + 1 | finetuning/test_distillation
finetuning/finetune.py | "data_fraction": fraction} | "data_fraction": 1.0} | finetuning/test_hyperparameter_search
finetuning/run.py | SCORED_ON, data.dev | SCORED_ON, data.train | finetuning/test_training_options
pretraining/data.py | (rank - before) % world_size | rank | pretraining/test_pretrain
pretraining/initial_weights.py | model.masked_lm = masked.masked_lm | pass | pretraining/test_pretrain
pretraining/run.py | =config.init is not None | =False | pretraining/test_pretrain
tasks/answers/tags.py | else self.scheme or scheme | else scheme | tasks/test_tagging_formats
tasks/data.py | width == 2 + labeled | width == 3 | tasks/test_data_in_memory
tasks/prediction_files.py | len(index_of) == len(rows) and None | None | tasks/test_predictions
"""


def passes(*tests: str) -> bool:
    """Return whether quick tests pass; without bytecode, which may miss a change. Exit if they cannot run."""
    result = subprocess.run([*COMMAND, *tests], cwd=TESTS, stdout=subprocess.PIPE, text=True)
    if result.returncode > 1:
        sys.exit(result.stdout)
    return result.returncode == 0


def main(wanted: str) -> None:
    """Try each change whose line contains the wanted text; exit with 1 if one survives."""
    changes = [f"{line}.py".split(" | ") for line in MUTANTS.splitlines()[1:] if wanted in line]
    if not (changes and passes(*{test for *_, test in changes})):
        sys.exit("no change contains this text, or the tests fail without a change")
    survived = 0
    for name, old, new, test in changes:
        file = TESTS.parent / "src/cloze" / name
        source = file.read_text("utf-8")
        if source.count(old) != 1:
            sys.exit(f"{file}: {old!r} is {source.count(old)} times in it")
        try:
            file.write_text(source.replace(old, new), "utf-8")
            is_alive = passes(test)
        finally:
            file.write_text(source, "utf-8")
        survived += is_alive
        print("survived" if is_alive else "caught  ", f"{name}: {old} -> {new}", flush=True)
    print(f"{len(changes) - survived} caught, {survived} survived")
    sys.exit(survived > 0)


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]))
