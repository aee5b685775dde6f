"""With CI=true, a skip fails unless CI cannot meet its reason."""

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest

REASONS = (
    # machines
    "needs a CUDA device",
    "needs a processor with AVX512-VNNI",
    "this processor (adds products in 32 bits|has no bfloat16)",
    "8 bits overflow on this processor",
    "needs a docker daemon",
    "root may .*",
    "needs CLOZE_SHARED, .*",
    # programs that `.ci/run` does not install
    "needs (fish|zsh|wrk and hey|systemd-analyze)",
    "could not import '(cohere|kubernetes_validate|langchain_|llama_index).*",  # `make clients` installs them
    # combinations of parameters that mean nothing
    "two concatenated encoders .*",
    "the encoders of experiments .*",
    "no answer is one, .*",
    "a text",
    "a file that is parsed as a whole: .*",
    "their own compression",
    "the same in both encodings",
)


def refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn the report of a skip into a failure, with CI=true, unless its reason is one of `REASONS`."""
    if os.environ.get("CI") != "true" or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = str(report.longrepr[2]).removeprefix("Skipped: ")
    if not any(re.fullmatch(allowed, reason) for allowed in REASONS):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI, for a reason that tests/skips.py does not allow: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    report: Any = yield
    refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Iterator[None]:
    report: Any = yield
    refuse_skip(report)
    return report
