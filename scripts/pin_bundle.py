"""Write the pins of a bundle whose packages go into a venv of its own: all that they need, at a version, with hashes.

``pin_bundle.py FOLDER`` resolves ``[install] packages`` of ``FOLDER/bundle.toml`` for the running Python, and writes
the file that ``pins`` names. Hashes are those of the wheels for each of `PYTHONS` and `PLATFORMS`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PYTHONS = ("3.11", "3.12", "3.13")
PLATFORMS = ("x86_64", "aarch64")
_MANYLINUX = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014", "manylinux_2_5", "manylinux1")
_TIMEOUT = 1800.0


def resolved(what: Sequence[str]) -> list[dict[str, Any]]:
    """What pip would install: ``metadata`` and ``download_info`` of each package (PyPA's installation report)."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--only-binary=:all:"]
        command += ["--quiet", "--disable-pip-version-check", "--report", str(report), *what]
        subprocess.run(command, check=True, timeout=_TIMEOUT)
        found: list[dict[str, Any]] = json.loads(report.read_text())["install"]
    return found


def requirement(package: dict[str, Any]) -> str:
    return f"{package['metadata']['name'].lower()}=={package['metadata']['version']}"


def main(folder: Path) -> None:
    install = tomllib.loads((folder / "bundle.toml").read_text())["install"]
    wanted = sorted(requirement(package) for package in resolved(install["packages"]))
    hashes: defaultdict[str, set[str]] = defaultdict(set)
    for python in PYTHONS:
        for machine in PLATFORMS:
            platforms = [f"--platform={manylinux}_{machine}" for manylinux in _MANYLINUX]
            options = ["--no-deps", f"--python-version={python}", "--implementation=cp", "--target=nowhere", *platforms]
            for package in resolved([*options, *wanted]):
                hashes[requirement(package)].add(package["download_info"]["archive_info"]["hashes"]["sha256"])
            print(f"Python {python} on {machine}: {len(wanted)} packages", file=sys.stderr)
    lines = [f"# {' '.join(install['packages'])}, by scripts/pin_bundle.py"]
    lines += [" \\\n    ".join([pin, *(f"--hash=sha256:{one}" for one in sorted(hashes[pin]))]) for pin in wanted]
    (folder / install["pins"]).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python {sys.argv[0]} FOLDER")
    main(Path(sys.argv[1]))
