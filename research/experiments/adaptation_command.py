"""`python -m experiments adaptation`: adapt an encoder to domains with samples of several sizes, and write a record."""

from pathlib import Path
from typing import Annotated

from cloze.arguments import check_path
from cloze.cli.options import Flag, Flags
from cloze.errors import InputError
from cloze.process import configure_memory
from experiments.adaptation import Adaptation, AdaptationConfig
from experiments.adaptation_record import write_adaptation_record
from experiments.plots import require_matplotlib
from experiments.study_command import Seeds, TasksData, parse_tasks_data


def run(
    *,
    model: str,
    old: Annotated[str, Flag(metavar="DATASET")],
    texts: TasksData = (),
    output: Path,
    seed: Seeds = (),
    flags: Flags,
) -> None:
    """Adapt an encoder to domains with 1, 3, 10 and 20 MB of text over three seeds, and write a record.

    The encoder, which has not seen the domains, is trained without next sentences. A stopped or killed study
    continues with the same command, and the record has the finished runs.

    Args:
        model: a checkpoint or run.
        old: the data set on which it was trained; its held-out documents show what is forgotten.
        texts: text of a domain, as in novels=FOLDER; may be given several times. The encoders of the domain named
            novels learn to name authors.
        output: directory of the runs and the record.
        seed: make only the runs of this seed; may be given several times.
        flags: flags of every verb.
    """
    if not texts:
        raise InputError("the flag --texts is missing", remedy="Name a domain, as in --texts novels=FOLDER")
    require_matplotlib()
    configure_memory()
    study = Adaptation(
        control=check_path(model, "--model"),
        old=check_path(old, "--old"),
        domains=parse_tasks_data(texts, "--texts"),
        output=output,
        config=AdaptationConfig(),
        progress=flags.progress,
    )
    try:
        study.run(seed)
    finally:
        record = write_adaptation_record(study)
    flags.print({"record": str(record)}, f"wrote {record}")
