"""Commands that run with a small file system of their own, which goes with them (Linux)."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def on_small_disk(folder: Path, size: str, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script with an empty file system of `size` mounted on `folder`, which is its working folder.

    Nobody else sees the file system. Skips the test where the system gives no such thing.
    """
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None or subprocess.run([*unshare, "true"], capture_output=True).returncode:
        pytest.skip("this system lets nobody mount a file system of their own")
    folder.mkdir(exist_ok=True)
    mount = f'mount -t tmpfs -o size={size} tmpfs "$0" && cd "$0" || exit 99\n'
    return subprocess.run(
        [*unshare, "sh", "-c", mount + script, str(folder), *arguments], capture_output=True, text=True, timeout=100
    )
