"""Rows to label next: uncertain ones, one of each cluster, with their cells and numbers."""

import numpy as np
import pytest

import cloze as package
from cloze.errors import InputError
from cloze.inference.load import as_predictor
from cloze.inference.next_labels import choose_central, choose_next_labels
from cloze.progress import SILENT
from helpers import read_rows


def test_one_row_of_each_cluster_is_chosen_near_its_center():
    rng = np.random.default_rng(1)
    centers = 20 * np.eye(4)
    vectors = np.concatenate(
        [center + rng.normal(size=(size, 4)) for center, size in zip(centers, (9, 30, 3, 50), strict=True)]
    )
    clusters = np.repeat(range(4), (9, 30, 3, 50))
    chosen = choose_central(vectors, rng.random(92), 4)
    assert sorted(clusters[chosen]) == [0, 1, 2, 3]
    assert all(np.abs(vectors[i] - centers[clusters[i]]).max() < 2 for i in chosen)
    assert sorted(choose_central(vectors[:3], np.ones(3), 5)) == [0, 1, 2]
    assert len({*choose_central(np.ones((9, 2)), np.zeros(9), 4)}) == 4  # equal texts


def test_rows_are_written_with_their_numbers_cells_and_margins(samples, tmp_path, cloze, error_line):
    texts = [f"He said {word}." for word in ("so", "that", "no", "yes", "more", "much", "it", "so much")]
    lines = [f"{text}\t{number}" for number, text in enumerate(texts, 1)]
    pool = tmp_path / "pool.tsv"
    pool.write_text("\n".join(["text\tpage", *lines]) + "\n")
    command = f"next-labels -m {{classifier}} {pool} -k 3 --quiet"
    chosen = cloze(command).rows
    assert not cloze(f"{command} -o {tmp_path}/next.csv").rows
    assert len({row["row"] for row in chosen}) == 3
    assert [row["margin"] for row in chosen] == sorted(row["margin"] for row in chosen)
    of_all = cloze(f"predict -m {{classifier}} {pool} --quiet").rows
    for row in chosen:
        high, second, *_ = sorted(row["probabilities"].values(), reverse=True)
        assert row.pop("margin") == pytest.approx(high - second)
        assert row == of_all[row["row"] - 1]
    written = read_rows(tmp_path / "next.csv")
    assert [(row["row"], row["page"]) for row in written] == [(str(row["row"]),) * 2 for row in chosen]
    everything = package.next_labels(pool, model=samples.classifier, top_k=50)
    assert sorted(row["row"] for row in everything) == list(range(1, 9))
    assert "--top-k: 0 is less than 1" in error_line(f"next-labels -m {{classifier}} {pool} -k 0")


@pytest.mark.slow
def test_a_graph_is_refused_before_its_predictions(samples, tmp_path):
    package.export_model(samples.classifier, output=tmp_path / "graph")
    predictor = as_predictor(tmp_path / "graph", device="cpu", precision=None)
    with pytest.raises(InputError, match="without vectors of texts"):
        choose_next_labels(predictor, [None], 1, progress=SILENT)
