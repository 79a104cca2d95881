"""Wheels made on the spot, and Python environments to install them into."""

from __future__ import annotations

import base64
import hashlib
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"


def write_wheel(folder: Path, name: str, version: str, requires: Sequence[str] = ()) -> Path:
    """Write a wheel of one module, `name`, whose ``VERSION`` is `version`."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    files = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{file},{_hash(text)},{len(text)}\n" for file, text in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
    return wheel


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def layered_python(folder: Path) -> Path:
    """The Python of a new environment in `folder` that has what the running one has, and can be added to."""
    venv.create(folder)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    layers = [str(SOURCE), *(entry for entry in sys.path if entry.endswith("site-packages"))]
    (site / "layers.pth").write_text("\n".join(layers), encoding="utf-8")
    return folder / "bin" / "python"
