"""`cloze predict --explain` and `cloze attention`: JSON lines, pages without external resources, and errors."""

import pytest

from pages import page_data, read_page


def test_explanations_are_in_the_output_and_on_a_page(samples, tmp_path, cloze, error_line):
    source, page = tmp_path / "in.txt", tmp_path / "page.html"
    source.write_text("It was <b>dark</b>.\nThe hound!\n\n", encoding="utf-8")
    explain = f"predict classification -m {samples.classifier} {source} --explain --quiet"
    rows = cloze(explain).rows
    command = f"{explain} --page {page}"
    assert cloze(command).out == ""
    for row, text in zip(rows, source.read_text().splitlines(), strict=True):
        explanation = row["explanation"]
        assert explanation["explained"] == row["label"]
        assert explanation["baseline"] == "[MASK]"
        assert all(word["word"] == text[word["start"] : word["end"]] for word in explanation["words"])
        change = explanation["output"] - explanation["baseline_output"]
        total = sum(word["attribution"] for word in explanation["words"])
        assert total - explanation["convergence_gap"] == pytest.approx(change, abs=1e-5)
    assert [word["word"] for word in rows[1]["explanation"]["words"]] == ["The", "hound", "!"]
    html, _ = read_page(page)
    texts = page_data(html)
    words = [word["word"] for text in texts for word in text["words"]]
    letters = [word for word in words if word in ("The", "hound", "dark", "b")]
    assert letters == ["b", "dark", "b", "The", "hound"]
    assert [text["output"] for text in texts] == [row["explanation"]["output"] for row in rows]
    assert "default-src 'none'" in html
    assert "<b>" not in html
    assert "already exists" in error_line(command)


def test_attention_is_written_as_a_page(samples, tmp_path, cloze, error_line):
    page = tmp_path / "page.html"
    command = f"attention -m {samples.classifier} 'The hound!' -o {page} --quiet"
    result = cloze(f"{command} --pair 'It was dark.' --json").json
    assert (result["layers"], result["heads"]) == (1, 2)
    assert page.read_text("utf-8").count("[SEP]") >= 2
    long_text = "dark " * 40
    assert "tokens, the model takes 32. Give a shorter text" in error_line(
        f"attention -m {samples.run} '{long_text}' -o {tmp_path}/other.html --quiet"
    )
    assert not (tmp_path / "other.html").exists()
