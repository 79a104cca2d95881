"""Pictures as an author gives them, and as they travel."""

import base64
import io

import pytest
from PIL import Image

from agent_env import Observation, pictures

RED = Image.new("RGB", (4, 3), "red")


def encoded(image, kind):
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


PNG = encoded(RED, "PNG")


def test_an_image_and_its_bytes_are_one_picture():
    url = pictures.as_url(RED)
    assert url == pictures.as_url(RED.copy()) == pictures.as_url(PNG)
    assert url.startswith("data:image/png;base64,")
    assert pictures.bytes_of(url) == PNG
    assert pictures.as_url(url) == url
    assert pictures.as_url("https://example.org/door.png") == "https://example.org/door.png"


@pytest.mark.parametrize(("kind", "media"), [("PNG", "image/png"), ("JPEG", "image/jpeg"), ("WEBP", "image/webp")])
def test_kinds_are_told_by_the_bytes(kind, media):
    url = pictures.as_url(encoded(RED, kind))
    assert url.startswith(f"data:{media};base64,")
    assert pictures.opened(url).size == (4, 3)
    assert pictures.block_of(url) == {"type": "image", "mimeType": media, "data": url.split(",")[1]}


def test_modes_that_png_does_not_have_become_rgb():
    assert pictures.opened(pictures.as_url(RED.convert("CMYK"))).getpixel((0, 0)) == (255, 0, 0)
    palette = pictures.as_url(RED.convert("P"))
    assert pictures.opened(palette).getpixel((0, 0)) == (255, 0, 0)


def test_the_key_of_what_is_seen_is_of_the_pictures_too():
    red, red_too, blue = (Observation("", images=[Image.new("RGB", (4, 4), name)]) for name in ("red", "red", "blue"))
    assert red.key == red_too.key != blue.key
    assert red.key == Observation("", images=[encoded(Image.new("RGB", (4, 4), "red"), "PNG")]).key


def test_a_name_is_of_the_bytes():
    name = pictures.name_of(pictures.as_url(PNG))
    assert name.endswith(".png")
    assert len(name) == 32 + 4
    assert name != pictures.name_of(pictures.as_url(Image.new("RGB", (4, 3), "blue")))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("https://example.org/door.png", "no data: URL in base64"),
        ("data:image/png,AAAA", "no data: URL in base64"),
        ("data:image/png;base64,AAA", "no base64"),
        (f"data:image/png;base64,{base64.b64encode(b'GIF89a').decode()}", "no PNG, JPEG or WebP file"),
        (f"data:image/png;base64,{base64.b64encode(PNG[:40]).decode()}", "a PNG file that cannot be read"),
    ],
)
def test_what_cannot_be_opened_is_said(url, message):
    with pytest.raises(ValueError, match=message):
        pictures.opened(url)


def test_a_picture_that_would_take_all_memory_is_refused(monkeypatch):
    monkeypatch.setattr(pictures, "MOST_PIXELS", 11)
    with pytest.raises(ValueError, match="a picture of 4×3 pixels, over 11"):
        pictures.opened(pictures.as_url(RED))
