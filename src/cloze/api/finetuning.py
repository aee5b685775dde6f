"""Fine-tune models on labeled data, from files or from memory."""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Unpack

from cloze.callbacks import load_writers
from cloze.config import setting_names
from cloze.errors import InputError
from cloze.options import FinetuneOptions
from cloze.parallel_map import resolve_workers
from cloze.progress import resolve_progress
from cloze.results import NamedScores
from cloze.signatures import checks_arguments

if TYPE_CHECKING:  # not needed for --help
    from cloze.tasks.task import Task
    from cloze.training.plan import RunPlan


class FinetuneResult(NamedScores):
    """The scores on the dev data of the best checkpoint of all runs, and where its model is."""

    def __init__(self, path: Path, report: dict[str, Any], device: str = "auto") -> None:
        from cloze.finetuning.finetune import scores_of_report

        super().__init__(scores_of_report(report))
        self.path = path
        """Directory of the run."""
        self.report = report
        """The content of `scores.json`, or of `trials.json` of several runs."""
        self._device = device

    def __repr__(self) -> str:
        return f"FinetuneResult({str(self.path)!r}, {dict(self)})"

    @cached_property
    def model(self) -> Any:
        """The best model, loaded on first use: a `TextClassifier` or another class for its task."""
        from cloze.inference.load import load

        return load(self.path, device=self._device)


def _setting_names() -> Iterator[str]:
    from cloze.finetuning.config import FinetuneConfig

    return setting_names(FinetuneConfig)


@checks_arguments(_setting_names)
def finetune(
    task: "str | Task | None" = None, *, output: str | Path, **options: Unpack[FinetuneOptions]
) -> FinetuneResult:
    """Fine-tune a model on labeled data and keep the best epoch.

    All data are read, checked and tokenized before the first step. Settings are the paper's and those of the task,
    then those of the recipe, then `settings`, then the other arguments. With several seeds or a grid, workers train
    several models at a time; under torchrun, all ranks train one.

    Settings for rare classes: classification.class_weights=balanced, or classification.class_weights.LABEL=5. For
    little data: freeze_layers=2 (the lowest), freeze_embeddings=true, optimizer.layer_decay=0.9 (the rate of a layer
    relative to the one above).

    >>> import cloze, tempfile
    >>> notes = [("a fine film", "good"), ("a dull film", "bad")] * 8
    >>> directory = tempfile.mkdtemp()
    >>> result = cloze.finetune(
    ...     "classification", train=notes, dev=notes, model="cloze-mini", output=f"{directory}/run", epochs=1
    ... )
    >>> sorted(result.scores), len(result.model.labels)
    (['accuracy', 'macro_f1', 'majority_accuracy'], 2)

    Args:
        task: name of the task; cloze tasks lists them. Recipes and runs to resume have one. In Python also a task with
            its settings.
        output: directory of the run. Several runs, over seeds or a grid, have their directories in its folder trials.
        settings: any setting by its key, as in max_seq_length=256; may be repeated.

    Returns:
        The scores on the dev data of the best checkpoint of all runs, and its path and model.

    Raises:
        Interrupted: SIGINT or SIGTERM arrived, and the state was saved.

    Source:
        Devlin et al. 2019, 4; google-research/bert run_classifier.py @eedf571.

    Differs:
        The last batch of an epoch has the remaining examples, where Google's code fills it from the next epoch.
    """
    from cloze.api.settings import finetuning_layers, resolve_finetuning, resume_run
    from cloze.finetuning import finetune as finetuning
    from cloze.training.distributed import num_restarts
    from cloze.training.run import Launch

    if options["report_to"] and options["workers"] != 1:
        what = "several processes cannot log to one service"
        raise InputError(what, where="report_to", remedy="Leave out `workers`")
    writers = load_writers(options["report_to"], where="report_to")
    layers, run = finetuning_layers(task, output, options), Path(output)
    workers = resolve_workers(options["workers"])
    with TemporaryDirectory(prefix="cloze-") as folder:
        resumed = resume_run(layers, run) if options["resume"] or num_restarts() else None
        resolved, config = resumed or resolve_finetuning(layers, Path(folder))
        launch = Launch(
            resume=resumed is not None,
            overwrite=options["overwrite"],
            callbacks=(*options["callbacks"], *writers),
            progress=resolve_progress(options["progress"]),
        )
        report = finetuning.finetune(resolved, config, run, launch, workers=workers)
    return FinetuneResult(run, report, config.device)


@checks_arguments(_setting_names)
def plan_finetuning(
    task: "str | Task | None" = None, *, output: str | Path | None = None, **options: Unpack[FinetuneOptions]
) -> "RunPlan":
    """Print memory and time of the run, measured in a few steps, and stop.

    Takes the arguments of `finetune`, and raises its errors.
    """
    from cloze.api.settings import finetuning_layers, resolve_finetuning
    from cloze.finetuning import finetune as finetuning

    with TemporaryDirectory(prefix="cloze-") as folder:
        resolved = resolve_finetuning(finetuning_layers(task, output, options), Path(folder))
        return finetuning.plan_finetuning(*resolved, progress=resolve_progress(options["progress"]))


@checks_arguments(_setting_names)
def validate_data(
    task: "str | Task | None" = None, *, output: str | Path | None = None, **options: Unpack[FinetuneOptions]
) -> dict[str, Any]:
    """Read all data, report the first error, and stop.

    Takes the arguments of `finetune`, and raises its errors. Returns numbers of examples and sequences, the classes
    and the settings of the task.
    """
    from cloze.api.settings import finetuning_layers, resolve_finetuning
    from cloze.finetuning import finetune as finetuning

    with TemporaryDirectory(prefix="cloze-") as folder:
        resolved = resolve_finetuning(finetuning_layers(task, output, options), Path(folder))
        return finetuning.validate(*resolved, progress=resolve_progress(options["progress"]))


@checks_arguments(_setting_names)
def finetuning_settings(
    task: "str | Task | None" = None, *, output: str | Path | None = None, **options: Unpack[FinetuneOptions]
) -> str:
    """Print the resolved settings as TOML, and stop.

    Takes the arguments of `finetune`; model and training data are optional.
    """
    from cloze.api.settings import finetuning_layers, resolve_finetuning, without_lines
    from cloze.tasks.config import to_toml

    layers = finetuning_layers(task, output, options)
    return without_lines(
        to_toml(*resolve_finetuning(layers, draft=True)), {"model", "train"} - layers.table.keys()
    )
