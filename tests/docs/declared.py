"""The data that stand in for those of the pages, and the commands that are shortened or not run."""

from pathlib import Path

from running import Page
from samples import NANO, NANO_TASK

LESSON = Path(__file__).resolve().parents[2] / "docs" / "guides" / "lesson.json"
NOT_RUN = {
    "pip install": "installs software",
    "apt-get": "installs software",
    "make demo": "installs software",
    "make test": "installs software",
    "cloze demo": "takes five minutes; tests/demo runs a small one",
    "cloze examples": "a share of the rows stands in; tests/demo writes all",
    "cloze serve": "serves until it is stopped; tests/serving/test_serve_command.py stops one",
    "curl": "asks a server; tests/serving/test_serving_page.py has one",
    "openssl": "a key for the container",
    "docker": "needs a docker daemon; tests/serving/test_dockerfile.py checks the Dockerfile",
    "hf://": "asks the Hub; tests/test_hub.py and tests/test_hub_datasets.py have a local one",
    "cloze push": "asks the Hub, likewise",
    "s3://": "asks an object store; tests/test_remote_files.py and tests/cli/test_cli_object_stores.py have one",
    "ray start": "starts a cluster; tests/test_ray_cluster.py has one",
    "--workers ray": "likewise; tests/cli/test_cli_predict_workers.py",
    "torchrun": "starts ranks; tests/pretraining/test_distributed_pretraining.py does, on one core",
    "python -m experiments study": "takes hours; test_study.py runs a small one",
    **{
        f"python -m experiments {table}": "takes hours; test_ablations.py runs a small one"
        for table in ("table5 --data", "figure5", "table6", "table7", "table8")
    },
    **{
        f"python -m benchmarks {what}": "many processes; research/tests/benchmarks runs a small one"
        for what in ("finetune mrpc -d MRPC", "vocab", "latency", "start", "inference", "serve")
    },
    "python -m benchmarks pretrain --device cuda": "needs a GPU",
}
"""Parts of commands and examples that are not run, with the reason, unless the page replaces a part of them."""


def shortening_flags(verb: str, arguments: list[str]) -> list[str]:
    """Return flags that make a command take a second instead of hours."""
    if "--resume" in arguments:
        return []
    if verb == "pretrain":
        settings = [*NANO, "--set=model.max_position_embeddings=512"]
        return [flag for flag in settings if "--init" not in arguments or "=model." not in flag]
    if verb == "finetune":
        has_epochs = "logistic" in arguments or any("grid.epochs" in argument for argument in arguments)
        return [*NANO_TASK, *([] if has_epochs else ["--set=epochs=1"])]
    if verb == "vocab":
        return ["--size", "500", "--workers", "1"]
    if verb in ("corpus", "vocab extend") and "--dry-run" not in arguments:
        return ["--workers", "1"]
    if verb == "benchmarks":
        return BENCHMARKS[arguments[0]]
    return []


BENCHMARKS = {
    "pretrain": ["--rounds=1", "--batch=2", "--max-seq-length=16", "--model=tiny"],
    "tokenize": ["--rounds=1", "--megabytes=0.02"],
    "corpus": ["--rounds=1", "--megabytes=0.02"],
    "load": ["--rounds=1"],  # the number of masked tokens of small batches varies too much
    "finetune": ["--rounds=2", "--set=epochs=1", "--set=max_seq_length=32", "--dtype=float32"],
    "embed": ["--rounds=1", "--texts=4"],
}

PAGES = {
    "README.md": Page(
        inputs="examples texts", replaced={"--budget 10m": "--steps 4", "'examples/novels/*.xz'": "texts"}
    ),
    "docs/index.md": Page(),
    "docs/install.md": Page(),
    "docs/start.md": Page(
        inputs="examples demo-run novel.txt=text.txt",
        replaced={
            **{
                f'output="{name}"': f'output="python-{name}"'
                for name in ("authors", "attention.html", "graph")
            },
            **{f'output="{name}"': f'output="python-{name}"' for name in ("vocab", "novels", "encoder")},
            'data="novels", budget="10m", progress=True': (
                'data="novels", steps=2, device="cpu", settings={"phases": [{"max_seq_length": 32, "fraction": 1, '
                '"batch_size": 4}], "evaluation": {"times": 1, "max_instances": 8}}'
            ),
            "'examples/novels/*.xz'": "novel.txt",
            '"examples/novels/*.xz"': '"novel.txt"',
            "cloze.write_examples()\n": "",
            "size=8000": "size=400",
            "--budget 10m": "--steps 2",
            "--epochs 6": "--epochs 1",
            "epochs=6": "epochs=1",
        },
    ),
    "docs/guides/your-text.md": Page(
        inputs="my-texts=texts my-field.txt=field.txt other-texts.txt=text.txt",
        replaced={"--budget 60m": "--steps 4", "--steps 10000": "--steps 4", "--number 500": "--number 2"},
    ),
    "docs/guides/your-data.md": Page(
        inputs="MODEL=run reviews.tsv more-reviews.tsv=reviews.tsv new-reviews.txt=lines.txt"
    ),
    "docs/reference/table-files.md": Page(inputs="MODEL=run films.csv"),
    "docs/guides/messy-csv.md": Page(inputs="tickets.csv=text:0"),
    "docs/guides/imbalanced-classes.md": Page(inputs="examples films.csv", is_exhaustive=True),
    "docs/guides/learning-rate.md": Page(inputs="examples", is_exhaustive=True),
    "docs/guides/overfitting.md": Page(
        inputs="examples", replaced={"--train-examples 100": "--train-examples 8"}, is_exhaustive=True
    ),
    "docs/guides/small-model.md": Page(
        inputs="examples authors", replaced={"--student-layers 0,2": "--student-layers 0"}
    ),
    "docs/guides/scikit-learn.md": Page(),
    "docs/guides/follow-a-run.md": Page(inputs="MODEL=run reviews.tsv"),
    "docs/guides/seeds-and-ensembles.md": Page(
        inputs="MODEL=run reviews.tsv more-reviews.tsv=reviews.tsv",
        replaced={"--seeds 5": "--seeds 2", "--folds 5": "--folds 2"},
    ),
    "docs/guides/evaluate-an-encoder.md": Page(inputs="MODEL=run novel.txt=text.txt blanks.tsv lines.txt"),
    "docs/guides/sentence-vectors.md": Page(
        inputs="MODEL=run scored.tsv pairs.tsv lines.txt STS-B=glue/STS-B"
    ),
    "docs/guides/entities.md": Page(
        inputs=(
            "MODEL=run train.conll=tagged.conll dev.conll=tagged.conll test.conll=tagged.conll "
            "words.conll=tagged.conll both.conll letters.txt=lines.txt"
        )
    ),
    "docs/guides/questions.md": Page(
        inputs="MODEL=run train-v2.0.json=squad2.json dev-v2.0.json=squad2.json predictions.json null_odds.json",
        replaced={
            "cloze finetune squad_v2": (
                "cloze finetune squad_v2 --set squad_v2.max_query_length=8 --set squad_v2.doc_stride=8"
            )
        },
    ),
    "docs/guides/ranking.md": Page(inputs="MODEL=run judged.tsv candidates.tsv=judged.tsv"),
    "docs/guides/baselines.md": Page(
        inputs="MODEL=run glue",
        replaced={
            "--sizes 100,500,2000,all": "--sizes 4,8,all",
            "--train-examples 500": "--train-examples 8",
        },
    ),
    "docs/guides/paper-tables.md": Page(
        inputs="MODEL=run GLUE=glue glue DIRECTORY=dev squad-run=squad", is_exhaustive=True
    ),
    "docs/reference/tasks.md": Page(inputs="MODEL=run glue"),
    "docs/reference/fine-tuning.md": Page(),
    "docs/reference/predictions.md": Page(inputs="reviews new-reviews.tsv=reviews.tsv"),
    "docs/guides/distillation.md": Page(
        inputs="MODEL=run reviews.tsv new-reviews.txt=lines.txt lines.txt train.conll=tagged.conll",
        replaced={
            "--student-layers 0,2,4,5": "--student-layers 0",
            "student_layers=(0, 2, 4, 5)": "student_layers=(0,)",
        },
        is_exhaustive=True,
    ),
    "docs/guides/models.md": Page(
        inputs=(
            "GOOGLE=google_bert HUB=checkpoint SENTENCES=minilm OLD=old_model lines.txt "
            "reviews.tsv my-texts=texts"
        ),
        replaced={"--steps 1000": "--steps 2"},
    ),
    "docs/guides/choosing-a-model.md": Page(inputs="reviews.tsv"),
    "docs/guides/long-texts.md": Page(
        inputs="MODEL=run reviews.tsv new-reviews.txt=lines.txt lines.txt data",
        replaced={"--steps 10000": "--steps 2"},
    ),
    "docs/reference/text.md": Page(
        inputs=("my-texts=texts vocab wikipedia=texts novels=texts crawl deduplicated=crawl vocabulary=vocab")
    ),
    "docs/guides/vocabulary.md": Page(
        inputs=("my-texts=texts held-out.txt=text.txt bert-base-uncased=vocab my-field.txt=field.txt"),
        replaced={"--number 500": "--number 2"},
    ),
    "docs/reference/tokenizer.md": Page(),
    "docs/ablations.md": Page(),
    "docs/guides/distribution.md": Page(),
    "docs/guides/adapt-to-your-domain.md": Page(
        inputs="MODEL=run my-field.txt=field.txt other-texts.txt=text.txt reviews.tsv",
        replaced={"--steps 200": "--steps 2", "steps=200": "steps=2"},
    ),
    "docs/claims/index.md": Page(),
    "records/2026-11-27-claims/input/README.md": Page(inputs="MODEL=minilm", is_exhaustive=True),
    "records/2026-11-27-claims/masked-words/README.md": Page(inputs="records", is_exhaustive=True),
    "records/2026-11-27-claims/next-sentence/README.md": Page(is_exhaustive=True),
    "records/2026-11-27-claims/sizes/README.md": Page(is_exhaustive=True),
    "records/2026-11-27-claims/fine-tuning/README.md": Page(
        inputs="MODEL=minilm", tolerance=0.2, is_exhaustive=True
    ),
    "records/2026-11-27-claims/little-data/README.md": Page(
        inputs="conll2003=shared/data/ner/conll2003 SST-2=shared/data/glue/SST-2",
        is_exhaustive=True,
        tolerance=0.1,
    ),
    "records/2026-11-27-claims/results/README.md": Page(is_exhaustive=True),
    "records/2026-11-27-claims/ablations/README.md": Page(inputs="records", is_exhaustive=True),
    "records/2026-11-27-claims/vectors/README.md": Page(
        inputs="STS-B=shared/data/glue/STS-B SST-2=shared/data/glue/SST-2", is_exhaustive=True
    ),
    "records/2026-11-27-claims/inside/README.md": Page(inputs="MODEL=minilm", is_exhaustive=True),
    "docs/guides/embeddings.md": Page(inputs="MODEL=minilm banks.txt=text:0"),
    "docs/guides/explanations.md": Page(inputs="reviews model=run new-reviews.txt=lines.txt"),
    "docs/guides/explorer.md": Page(
        inputs="RUN=run CLASSIFIER=reviews OLDER=reviews more-reviews.tsv=reviews.tsv",
        replaced={
            f"cloze serve {shown}": (
                f"cloze serve {run or shown} --port 0 2> told & "
                f"until grep -q 'serving {names}' told; do kill -0 $!; sleep 0.1; done; kill $!; wait $!"
            )
            for shown, run, names in (
                ("-m mini=RUN -m reviews=CLASSIFIER", "", "mini, reviews"),
                ("--lesson lesson.json", f"--lesson {LESSON}", "cloze-mini"),
                ("-m reviews=CLASSIFIER -m before=OLDER --evaluation answers.jsonl", "", "reviews, before"),
            )
        },
    ),
    "docs/guides/export.md": Page(inputs="MODEL=reviews"),
    "docs/performance.md": Page(
        inputs="MODEL=minilm lines.txt my-text.txt=text.txt vocab data",
        replaced={"--steps 10000": "--steps 4"},
        is_exhaustive=True,
    ),
    "docs/guides/quantization.md": Page(
        inputs="MODEL=minilm lines.txt RUN=reviews reviews.tsv", is_exhaustive=True
    ),
    "research/experiments/scale.md": Page(),
    "docs/guides/serving.md": Page(),
    "docs/paper/encoder.md": Page(inputs="MODEL=run"),
    "docs/paper/experiments.md": Page(
        inputs="MODEL=minilm data lines.txt", replaced={"--steps 100000": "--steps 2"}, is_exhaustive=True
    ),
    "docs/reference/recipes.md": Page(
        inputs="TEXT=texts DATASET=data MODEL=run MRPC=glue/MRPC",
        replaced={
            "--steps 1800": "--steps 2",
            "--budget 30m": "--steps 2",
            "--budget 60m": "--steps 2",
            "--steps 1000000": "--steps 2",
        },
        is_exhaustive=True,
    ),
}
"""Pages by path; pages without commands and examples are left out."""

NOTEBOOKS = {
    "pretraining.ipynb": {
        "steps=900": "steps=4",
        "for novelist in NOVELISTS:": "for novelist in NOVELISTS[4:5]:",
        "size=8000": "size=1000",
        "sample=200": "sample=20",
    },
    "first-hour.ipynb": {"PASSAGES = 40": "PASSAGES = 2", "[:400]": "[:10]"},
}
"""Replacements in the cells of a notebook, so that it runs in seconds."""
