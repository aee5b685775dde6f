"""One of everything that the verbs read: text, vocabulary, data set, run, labelled data, classifier. All tiny."""

import pytest
from shop import NANO, NANO_TASK, Shop

from cloze.cli import main
from helpers import novel_paragraphs, write_novel


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    place = tmp_path_factory.mktemp("shop")
    shop = Shop(
        *(place / name for name in ("novel.txt", "vocab", "data", "run", "reviews.tsv", "classifier"))
    )
    write_novel(shop.text, 200)
    rows = [f"{paragraph[:40]}\t{number % 2}\n" for number, paragraph in enumerate(novel_paragraphs(40))]
    shop.table.write_text("text\tlabel\n" + "".join(rows), encoding="utf-8")
    corpus = ("--format", "paragraphs", "--workers", "1", "--validation-fraction", "0.1")
    pretraining = (
        "--steps",
        "4",
        "--set=checkpoints.every_steps=2",
        "--set=checkpoints.keep_newest=9",
        *NANO,
    )
    commands = [
        ["vocab", shop.text, "-o", shop.vocab, "--size", "500", "--workers", "1"],
        ["corpus", shop.text, "--vocab", shop.vocab, "-o", shop.data, *corpus],
        ["pretrain", "--data", shop.data, "-o", shop.run, *pretraining],
        ["finetune", "classification", "-m", shop.run, "-d", shop.table, "-o", shop.classifier, *NANO_TASK],
    ]
    for command in commands:
        assert main([*map(str, command), "--quiet"]) == 0
    return shop
