"""Pictures as an author gives them, and as they travel: ``data:`` URLs that hold a file's bytes.

A picture is taken as what it is, a PNG, JPEG or WebP file, by its bytes; Pillow is needed only to make one of an image
that is in memory, and by those who draw and by those who look.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import re
import struct
from typing import Any

from agent_env.extras import imported

MOST_PIXELS = 4096 * 4096
"""Of a picture that is opened: a file of some kilobytes can ask for gigabytes of memory."""

_KINDS = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}
_URL = re.compile(r"data:(?P<kind>[\w.+-]+/[\w.+-]+);base64,(?P<data>[A-Za-z0-9+/=\s]*)", re.ASCII)


def as_url(picture: Any) -> str:
    """A picture as a URL: one that is a URL already, as it is; a file's bytes or a Pillow image, as a ``data:`` URL.

    Equal pixels of a Pillow image have equal URLs.

    Raises:
        ValueError: it is none of these; bytes that are no PNG, JPEG or WebP file.
    """
    if isinstance(picture, str):
        return picture
    if isinstance(picture, bytes | bytearray | memoryview):
        data = bytes(picture)
    elif callable(getattr(picture, "save", None)) and hasattr(picture, "mode"):
        file = io.BytesIO()
        (picture if picture.mode in ("1", "L", "P", "RGB", "RGBA") else picture.convert("RGB")).save(file, "PNG")
        data = file.getvalue()
    else:
        raise ValueError(f"expected a PIL image, a picture's bytes or a URL, got {type(picture).__name__}")
    return f"data:{kind_of(data)};base64,{base64.b64encode(data).decode('ascii')}"


def kind_of(data: bytes) -> str:
    """The media type of a picture's bytes. Raises ValueError if they are no PNG, JPEG or WebP file."""
    for kind, begins in _KINDS.items():
        if data.startswith(begins):
            return kind
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    raise ValueError(f"bytes that are no PNG, JPEG or WebP file (they begin with {data[:8]!r})")


def travels(url: str) -> bool:
    """Whether a URL holds the picture itself, in base64."""
    return _URL.match(url) is not None


def bytes_of(url: str) -> bytes:
    """The bytes that a ``data:`` URL holds. Raises ValueError for another URL, and for what is no base64."""
    match = _URL.fullmatch(url)
    if match is None:
        raise ValueError(f"no data: URL in base64: {url[:60]!r}")
    try:
        return base64.b64decode(match["data"], validate=False)
    except binascii.Error as error:
        raise ValueError(f"no base64: {error}") from None


def block_of(url: str) -> dict[str, str]:
    """A ``data:`` URL as a block of MCP's content. Raises what `bytes_of` raises."""
    match = _URL.fullmatch(url)
    if match is None:
        raise ValueError(f"no data: URL in base64: {url[:60]!r}")
    return {"type": "image", "data": match["data"], "mimeType": match["kind"]}


def name_of(url: str) -> str:
    """A name that equal pictures share, ``9f86d081884c7d65.png``: a hash of the bytes, and their kind.

    Raises what `bytes_of` and `kind_of` raise.
    """
    data = bytes_of(url)
    return f"{hashlib.sha256(data).hexdigest()[:32]}.{kind_of(data).removeprefix('image/')}"


def opened(url: str) -> Any:
    """The picture as a Pillow image in RGB.

    Raises:
        ValueError: it is no ``data:`` URL of a PNG, JPEG or WebP file, cannot be read, or has over `MOST_PIXELS`.
        MissingExtra: Pillow is not installed.
    """
    image = imported("PIL.Image", "pictures")
    data = bytes_of(url)
    kind = kind_of(data).removeprefix("image/").upper()
    try:
        picture = image.open(io.BytesIO(data), formats=(kind,))
        width, height = picture.size
        if width * height > MOST_PIXELS:
            raise ValueError(f"a picture of {width}×{height} pixels, over {MOST_PIXELS}")
        return picture.convert("RGB")
    except (OSError, SyntaxError, EOFError, struct.error, image.DecompressionBombError) as error:
        raise ValueError(f"a {kind} file that cannot be read: {error}") from error
