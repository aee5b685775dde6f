"""The data of the README and the tutorial, made of the bundled novels."""

import csv
import shutil
from importlib import resources
from pathlib import Path

from cloze import artifacts
from cloze.demo.novels import DATA, NOVELISTS, sample_passages
from cloze.options import Overwrite
from cloze.signatures import checks_arguments

KIND = "examples"
_AUTHORS = ("Burnett", "Conrad", "Doyle")
_PASSAGE_WORDS = 20


@checks_arguments()
def write_examples(*, output: str | Path = "examples", overwrite: Overwrite = False) -> Path:
    """Write the data that the README and the tutorial use, and return their directory.

    `authors.csv` has 200 passages of one novel by each of three authors, `other-books.csv` 30 of another one, with the
    columns text and author; `novels` has twelve novels, compressed. All are in the public domain.

    Args:
        output: directory of the data.

    Raises:
        InputError: the output exists.
    """
    chosen = [novelist for novelist in NOVELISTS if novelist.name in _AUTHORS]
    tables = {
        "authors.csv": [(novelist.name, novelist.train_novel, 200) for novelist in chosen],
        "other-books.csv": [(novelist.name, novelist.test_novel, 30) for novelist in chosen],
    }
    with artifacts.write_directory(Path(output), kind=KIND, overwrite=overwrite) as directory:
        for name, parts in tables.items():
            with (directory / name).open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(("text", "author"))
                for author, novel, count in parts:
                    writer.writerows((text, author) for text in sample_passages(novel, count, _PASSAGE_WORDS))
        with resources.as_file(DATA) as novels:
            shutil.copytree(novels, directory / "novels")
    return Path(output)
