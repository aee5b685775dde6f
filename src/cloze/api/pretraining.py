"""Pre-training, on a data set or on texts in memory."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from cloze.api.datasets import build_dataset
from cloze.callbacks import load_writers
from cloze.config import setting_names
from cloze.errors import InputError
from cloze.options import PretrainOptions
from cloze.progress import is_rank_zero, resolve_progress
from cloze.signatures import checks_arguments

if TYPE_CHECKING:  # not needed for --help
    from cloze.training.plan import RunPlan


def _setting_names() -> Iterator[str]:
    from cloze.pretraining.config import PretrainConfig

    return setting_names(PretrainConfig)


@checks_arguments(_setting_names)
def pretrain(*, output: str | Path, **options: Unpack[PretrainOptions]) -> dict[str, float]:
    """Pre-train an encoder with masked LM and next sentence prediction; under torchrun, on all of its ranks.

    Settings are the paper's and those of the model's size, then those of the recipe, then `settings`, then the other
    arguments.

    Args:
        output: directory of the run.
        resume: continue the run in the output, or start one if the output is free. Settings must equal the
            run's, unless they may change on resume; `texts` are tokenized again and compared.
        overwrite: replace an existing run, and for `texts` the data set.

    Returns:
        The last metrics on held-out documents: losses in nats, accuracies in 0..1.

    Raises:
        Interrupted: SIGINT or SIGTERM arrived, and the state was saved.

    Source:
        Devlin et al. 2019, 3.1 and A.2; google-research/bert run_pretraining.py @eedf571.
    """
    from cloze.api.settings import (
        find_initial_checkpoint,
        pretraining_layers,
        resolve_pretraining,
        resume_run,
    )
    from cloze.data.dataset import dataset_fingerprint
    from cloze.pretraining import run as pretraining
    from cloze.training.distributed import num_restarts
    from cloze.training.run import Launch
    from cloze.training.run_directory import check_output

    writers = load_writers(options["report_to"], where="report_to")
    layers, run = pretraining_layers(output, options), Path(output)
    progress = resolve_progress(options["progress"])
    texts, overwrite = options["texts"], options["overwrite"]
    may_resume = options["resume"] or num_restarts() > 0
    resumed = resume_run(layers, run) if may_resume else None
    config = resolve_pretraining(layers) if resumed is None else resumed[1]
    if texts is not None and is_rank_zero():
        if resumed is None:
            check_output(run, overwrite=overwrite)
        data = Path(config.data)
        if may_resume and data.exists():  # of this run, or of its killed start
            with tempfile.TemporaryDirectory(prefix="cloze-") as directory:
                again = Path(directory) / "data"
                build_dataset(vocabulary=data, output=again, texts=texts, progress=progress)
                if dataset_fingerprint(again) != dataset_fingerprint(data):
                    remedy = "Give the texts of the run, or start a new run in another `output`"
                    raise InputError(f"are not the texts of {data}", where="texts", remedy=remedy)
        else:
            build_dataset(
                vocabulary=config.init, output=data, texts=texts, overwrite=overwrite, progress=progress
            )
    launch = Launch(
        resume=resumed is not None,
        overwrite=overwrite,
        callbacks=(*options["callbacks"], *writers),
        progress=progress,
    )
    return pretraining.pretrain(config, run, find_initial_checkpoint(config), launch)


@checks_arguments(_setting_names)
def plan_pretraining(*, output: str | Path | None = None, **options: Unpack[PretrainOptions]) -> "RunPlan":
    """Print memory and time of the run, measured in a few steps, and stop.

    Takes the arguments of `pretrain`, and raises its errors.
    """
    from cloze.api.settings import find_initial_checkpoint, pretraining_layers, resolve_pretraining
    from cloze.pretraining import run as pretraining

    config = resolve_pretraining(pretraining_layers(output, options))
    progress = resolve_progress(options["progress"])
    return pretraining.plan_pretraining(config, find_initial_checkpoint(config), progress=progress)


@checks_arguments(_setting_names)
def pretraining_settings(*, output: str | Path | None = None, **options: Unpack[PretrainOptions]) -> str:
    """Print the resolved settings as TOML, and stop.

    Takes the arguments of `pretrain`; data and length are optional.
    """
    from cloze.api.settings import pretraining_layers, resolve_pretraining, without_lines
    from cloze.config import to_toml

    layers = pretraining_layers(output, options)
    return without_lines(
        to_toml(resolve_pretraining(layers, draft=True)), {"data", "steps"} - layers.table.keys()
    )
