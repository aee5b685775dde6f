"""Pre-training, on a data set or on texts in memory."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloze.api.datasets import build_dataset
from cloze.api.signatures import takes_arguments_of
from cloze.callbacks import Callback, load_writers
from cloze.choices import Precision
from cloze.config import setting_names
from cloze.errors import InputError
from cloze.progress import Progress, is_rank_zero, resolve_progress
from cloze.suggestions import suggests_keywords

if TYPE_CHECKING:  # not needed for --help
    from cloze.pretraining.config import ModelConfig, PretrainConfig
    from cloze.training.plan import RunPlan


def _setting_names() -> Iterator[str]:
    from cloze.pretraining.config import PretrainConfig

    return setting_names(PretrainConfig)


@suggests_keywords(_setting_names)
def pretrain(
    *,
    output: str | Path,
    data: str | Path | None = None,
    texts: Any = None,
    model: "str | ModelConfig | Mapping[str, Any] | None" = None,
    steps: int | None = None,
    budget: str | None = None,
    init: str | Path | None = None,
    seed: int | None = None,
    device: str | None = None,
    precision: Precision | None = None,
    config: "str | Path | PretrainConfig | None" = None,
    settings: Mapping[str, Any] = {},
    report_to: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
    resume: bool = False,
    overwrite: bool = False,
    progress: bool | Progress = False,
) -> dict[str, float]:
    """Pre-train an encoder with masked LM and next sentence prediction; under torchrun, on all of its ranks.

    Settings are the paper's and those of the model's size, then those of the recipe, then `settings`, then the other
    arguments.

    Args:
        output: directory of the run.
        data: data set of `cloze corpus` (required for a new run).
        texts: instead of `data`, with `init`: texts in memory, as for `build_dataset`, which are tokenized into a data
            set called as the run with "-data" after its name.
        model: tiny, mini, small, medium, base or large (default: base); of another encoder, as in modern-tiny.
        steps: number of optimizer steps, unless there is a budget.
        budget: training time, as in 30m or 8h; the learning rate schedule follows the clock.
        init: cloze-mini, a checkpoint, a run or hf://org/name to adapt to the data, with a new optimizer.
        seed: seed of weights, pairs, masks and dropout (default: 12345).
        device: cpu, cuda, mps or auto (default: auto).
        precision: number format of matrix products (default: auto, bfloat16 where it is fast).
        config: TOML file, or name of a recipe, as in original or fast (default with init: adapt). In Python also a
            config object.
        settings: any setting by its key, as in optimizer.learning_rate=2e-5; may be repeated.
        report_to: service to log to, as in wandb:PROJECT or mlflow:EXPERIMENT; may be repeated.
        callbacks: receive what the run measures.
        resume: continue the run in the output, or start one if the output is free. Settings must equal the
            run's, unless they may change on resume; `texts` are tokenized again and compared.
        overwrite: replace an existing run, and for `texts` the data set.
        progress: True shows progress on stderr.

    Returns:
        The last metrics on held-out documents: losses in nats, accuracies in 0..1.

    Raises:
        InputError: a setting, the data set or the checkpoint to start from is wrong; nothing was written.
        Interrupted: SIGINT or SIGTERM arrived, and the state was saved.
        RunError: the loss stayed infinite or NaN, the disk is full, or a rank was lost.

    Source:
        Devlin et al. 2019, 3.1 and A.2; google-research/bert run_pretraining.py @eedf571.
    """
    arguments = locals()
    from cloze.api.settings import PretrainingRequest, find_initial_checkpoint
    from cloze.pretraining import run as pretraining
    from cloze.training.distributed import num_restarts
    from cloze.training.run_directory import check_output

    writers = load_writers(report_to, where="report_to")
    request, shown = PretrainingRequest(arguments), resolve_progress(progress)
    resumed = request.resumed()
    resolved = resumed or request.resolve()
    if texts is not None and is_rank_zero():
        if resumed is None:
            check_output(request.run, overwrite=overwrite)
        if (resume or num_restarts()) and Path(resolved.data).exists():  # of this run, or of its killed start
            _check_texts(texts, Path(resolved.data), shown)
        else:
            build_dataset(
                vocabulary=resolved.init,
                output=resolved.data,
                texts=texts,
                overwrite=overwrite,
                progress=shown,
            )
    return pretraining.pretrain(
        resolved,
        request.run,
        start=find_initial_checkpoint(resolved),
        overwrite=overwrite,
        resume=resumed is not None,
        callbacks=(*callbacks, *writers),
        progress=shown,
    )


def _check_texts(texts: Any, dataset: Path, progress: Progress) -> None:
    """Check that a data set was built from these texts in memory."""
    from cloze.data.dataset import dataset_fingerprint

    with tempfile.TemporaryDirectory(prefix="cloze-") as directory:
        built = Path(directory) / "data"
        build_dataset(vocabulary=dataset, output=built, texts=texts, progress=progress)
        if dataset_fingerprint(built) != dataset_fingerprint(dataset):
            remedy = "Give the texts of the run, or start a new run in another `output`"
            raise InputError(f"are not the texts of {dataset}", where="texts", remedy=remedy)


@takes_arguments_of(pretrain)
def plan_pretraining(arguments: dict[str, Any]) -> "RunPlan":
    """Print memory and time of the run, measured in a few steps, and stop.

    Takes the arguments of `pretrain`, and raises its errors.
    """
    from cloze.api.settings import PretrainingRequest, find_initial_checkpoint
    from cloze.pretraining import plan

    progress = resolve_progress(arguments.get("progress", False))
    config = PretrainingRequest(arguments).resolve()
    return plan.plan_pretraining(config, find_initial_checkpoint(config), progress=progress)


@takes_arguments_of(pretrain)
def pretraining_settings(arguments: dict[str, Any]) -> str:
    """Print the resolved settings as TOML, and stop.

    Takes the arguments of `pretrain`; data and length are optional.
    """
    from cloze.api.settings import PretrainingRequest

    return PretrainingRequest(arguments).to_toml()
