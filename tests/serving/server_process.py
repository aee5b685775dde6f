"""A server of its own process, as users start it."""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx


class ServerProcess:
    """`cloze serve`, once it answers."""

    def __init__(self, *arguments: str, one_core: bool = False, omp_threads: int = 1) -> None:
        command = [sys.executable, "-m", "cloze", "serve", "--port", "0", *arguments]
        if one_core:  # beside other tests, two threads would mostly wait for each other
            command = ["taskset", "-c", str(max(os.sched_getaffinity(0))), *command]
        self.process = subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(omp_threads)},
        )
        assert self.process.stderr is not None
        self.told = self.process.stderr.readline()
        found = re.search(r"http://(?:127\.0\.0\.1|0\.0\.0\.0):(\d+)", self.told)
        assert found, self.told + self.process.stderr.read()
        self.port = int(found[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self.log: list[str] = []
        # a full pipe would block the server
        self._reading = threading.Thread(target=self.log.extend, args=(self.process.stderr,))
        self._reading.start()

    def post(self, route: str, **request: Any) -> httpx.Response:
        return httpx.post(f"{self.url}{route}", json=request, timeout=30)

    def state(self) -> tuple[int, int, int]:
        """Return its bytes of memory, threads and open files.

        Pages of files do not count: the system drops and reads them as it likes.
        """
        own = Path("/proc") / str(self.process.pid)
        resident, shared = map(int, (own / "statm").read_text().split()[1:3])
        return (
            (resident - shared) * os.sysconf("SC_PAGE_SIZE"),
            len(list((own / "task").iterdir())),
            len(list((own / "fd").iterdir())),
        )

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reading.join()
        assert self.process.stderr is not None
        self.process.stderr.close()
