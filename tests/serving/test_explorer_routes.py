"""The files of the page, the file of an evaluation, and windows of texts; answers are in recorded_answers.json."""

from collections.abc import Mapping
from pathlib import Path

from clients import Client, client_of

from cloze.explorer.text_window import max_window_tokens, text_window
from cloze.serving.app import PAGE
from cloze.serving.served_model import ServedModel


def test_only_the_files_of_the_page_are_served(client: Client) -> None:
    page = client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"].startswith("default-src 'self';")
    for path in PAGE.iterdir():
        answer = client.get(f"/page/{path.name}")
        assert answer.content == path.read_bytes()
        assert "default-src 'self'" in answer.headers["content-security-policy"]
    for name in ("../explorer.py", "..%2Fexplorer.py", "explorer.py", "%2Fetc%2Fpasswd", ""):
        assert client.get(f"/page/{name}").status_code == 404


def test_the_file_of_an_evaluation_is_read_again_for_each_request(
    client: Client, models: Mapping[str, ServedModel], tmp_path: Path
) -> None:
    assert client.get("/explore/evaluation").json() == {"name": None, "content": None}
    file = tmp_path / "answers.csv"
    with client_of(models, evaluation=file, api_key="sesame") as other:
        assert other.get("/explore/evaluation").status_code == 401
        for content in ('"text","gold","label"\n', '"text","gold","label"\n"ä","a","b"\n'):
            file.write_text(content, "utf-8")
            answer = other.get("/explore/evaluation", headers={"Authorization": "Bearer sesame"})
            assert answer.json() == {"name": "answers.csv", "content": content}


def test_a_window_cuts_no_word_and_is_limited_by_attention_weights(models: Mapping[str, ServedModel]) -> None:
    tokenizer, encoder = models["bert"].tokenizer, models["bert"].encoder
    for start in range(7):
        window = text_window(tokenizer, "a bcdef a", start=start, max_tokens=8)
        assert len(tokenizer.encode(window.text)) == window.count + 2 <= 8
        assert window.text in ("a bcdef", "bcdef a"), start
    assert text_window(tokenizer, "bcdef", max_tokens=5).text == "bcd"  # but one that is longer than a window
    assert max_window_tokens(encoder, max_weights=600) == 10  # of 6 heads
