"""Memory of the process and of its container."""

from pathlib import Path

import numpy as np
import torch

from cloze.training.memory import available_memory, peak_memory

CPU = torch.device("cpu")


def test_peak_memory_includes_what_was_freed():
    before = peak_memory(CPU)
    size = before + 2**26
    np.ones(size, np.uint8)
    assert size <= peak_memory(CPU) < before + size + 2**26


def test_available_memory_respects_the_limit_of_a_container(tmp_path):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  900 kB\nMemAvailable:     500 kB\n")

    def available(device: torch.device = CPU, meminfo: Path = meminfo) -> int | None:
        return available_memory(device, meminfo=meminfo, cgroup=tmp_path)

    assert available() == 512_000
    (tmp_path / "memory.max").write_text("max\n")
    assert available() == 512_000
    (tmp_path / "memory.max").write_text("300000\n")
    (tmp_path / "memory.current").write_text("100000\n")
    (tmp_path / "memory.stat").write_text("anon 40000\nfile 60000\ninactive_file 30000\nactive_file 20000\n")
    assert available() == 250_000, "cached files can be dropped"
    assert available(torch.device("meta")) is None
    assert available(meminfo=tmp_path / "none") is None
