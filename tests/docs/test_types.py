"""The Python examples of the README and the guides pass mypy, as a reader's editor checks them."""

import sys
from pathlib import Path

import pytest
from running import blocks

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = (
    REPOSITORY / "README.md",
    *(
        page
        for folder in ("docs", "docs/guides", "docs/reference")
        for page in sorted((REPOSITORY / folder).glob("*.md"))
    ),
)
NOT_CHECKED = (
    "onnxruntime",
    "transformers",
    "sentence_transformers",
    "sklearn",
    "pandas",
    "datasets",
    "openai",
)


@pytest.mark.exhaustive
def test_python_examples_are_typed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    api = pytest.importorskip("mypy.api")
    files = []
    for page in PAGES:
        code = [
            b.code for b in blocks(page.read_text("utf-8")) if b.language == "python" and ">>>" not in b.code
        ]
        if code:
            name = "_".join(page.relative_to(REPOSITORY).with_suffix("").parts).replace("-", "_")
            files.append(tmp_path / f"{name}.py")
            files[-1].write_text("\n".join(code), "utf-8")
    assert len(files) > 4
    settings = "[mypy]\nmypy_path = " + str(REPOSITORY / "src") + "\nignore_missing_imports = True\n"
    settings += "".join(f"[mypy-{name}.*]\nfollow_imports = skip\n" for name in NOT_CHECKED)
    (tmp_path / "mypy.ini").write_text(settings + "[mypy-cloze.*]\nignore_errors = True\n")
    flags = ["--config-file", str(tmp_path / "mypy.ini"), "--cache-dir", str(tmp_path / "cache")]
    out, err, status = api.run([*flags, "--python-executable", sys.executable, *map(str, files)])
    assert status == 0, out + err
