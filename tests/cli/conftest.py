"""One of everything that the verbs read: text, vocabulary, data set, run, labelled data, classifier. All tiny."""

import lzma

import pytest
from shop import NANO, NANO_TASK, REPOSITORY, Shop

from cloze.cli import main


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    place = tmp_path_factory.mktemp("shop")
    shop = Shop(
        *(place / name for name in ("novel.txt", "vocab", "data", "run", "reviews.tsv", "classifier"))
    )
    novel = REPOSITORY / "src/cloze/demo/data/Doyle_Hound_1902.txt.xz"
    with lzma.open(novel, "rt", encoding="utf-8-sig") as stream:
        paragraphs = [line.strip() for line in stream if len(line) > 80][:200]
    groups = ["\n".join(paragraphs[i : i + 5]) for i in range(0, len(paragraphs), 5)]
    shop.text.write_text("\n\n".join(groups) + "\n", encoding="utf-8")
    rows = [f"{paragraph[:40]}\t{number % 2}\n" for number, paragraph in enumerate(paragraphs[:40])]
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
