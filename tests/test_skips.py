"""With CI=true, a skip fails unless its reason is allowed."""

import pytest

import skips

TEST = """
import pytest

@pytest.mark.skipif(True, reason={reason!r})
def test_marked(): pass

def test_called(): pytest.skip({reason!r})

def test_of_a_fixture(request): request.getfixturevalue("skipping")

@pytest.fixture
def skipping(): pytest.skip({reason!r})

@pytest.mark.xfail
def test_expected_failure(): assert False
"""
MODULE = "import pytest; pytest.skip({reason!r}, allow_module_level=True)"


@pytest.mark.parametrize(
    ("source", "ci", "reason", "fails"),
    [
        (TEST, "true", "a text that is longer", True),
        (TEST, "true", "needs a CUDA device", False),
        (TEST, "", "needs chromium", False),
        (MODULE, "true", "needs chromium", True),
        (MODULE, "true", "could not import 'llama_index.embeddings': No module", False),
    ],
)
def test_a_tool_that_is_missing_fails_ci(source, ci, reason, fails, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    file, settings = tmp_path / f"{tmp_path.name}.py", tmp_path / "pytest.ini"
    file.write_text(source.format(reason=reason))
    settings.write_text("[pytest]\n")
    options = ["-p", "no:cacheprovider", "-c", str(settings)]
    code = pytest.main([*options, str(file)], plugins=[skips])
    printed = capsys.readouterr().out
    assert (reason in printed) == fails
    if source == MODULE:
        assert code == (pytest.ExitCode.INTERRUPTED if fails else pytest.ExitCode.NO_TESTS_COLLECTED)
    else:
        assert code == (pytest.ExitCode.TESTS_FAILED if fails else pytest.ExitCode.OK)
        assert ("2 failed, 1 xfailed, 1 error" if fails else "3 skipped, 1 xfailed") in printed
