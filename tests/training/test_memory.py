"""The settings of a process that trains bound its memory."""

import os
import subprocess
import sys

import pytest
import torch

pytestmark = pytest.mark.slow

SHAPES = """
import torch
from cloze.training.memory import configure_process_memory
configure_process_memory()
layer = torch.nn.Conv2d(4, 8, 3).requires_grad_(False)
for size in [*range(8, 308), *range(8, 308)]:
    layer(torch.zeros(2, 4, size, size))
"""


@pytest.mark.parametrize(("capacity", "keeps_all"), [(None, False), ("1024", True)])
def test_onednn_keeps_few_kernels_unless_the_user_says_otherwise(
    capacity: str | None, keeps_all: bool
) -> None:
    """Three hundred shapes in turn: none is found again among the 256 newest."""
    if not torch.backends.mkldnn.is_available():
        pytest.skip("torch has no oneDNN here")
    environment = {**os.environ, "ONEDNN_VERBOSE": "profile_create", "OMP_NUM_THREADS": "1"}
    environment.pop("ONEDNN_PRIMITIVE_CACHE_CAPACITY", None)
    if capacity is not None:
        environment["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] = capacity
    command = [sys.executable, "-c", SHAPES]
    lines = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    created = [line for line in lines.splitlines() if "convolution" in line]
    assert len(created) >= 600
    assert any("cache_hit" in line for line in created) == keeps_all
