"""What a game shows, as a picture of 300×300 pixels: cards side by side on green, and what is written below them.

The cards are drawn here, so that a picture is the same wherever it is made. Suits mean nothing: a card's is told by
its place.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from agent_env.extras import imported

SIZE = 300

_TABLE, _CARD, _EDGE = (0x35, 0x65, 0x4D), (252, 252, 248), (40, 40, 40)
_RED, _BLACK, _CHALK = (196, 30, 40), (20, 20, 24), (244, 244, 236)
_FACES = {1: "A", 11: "J", 12: "Q", 13: "K"}
_GAP = 6
_MOST_IN_A_ROW = 6


class Scene(NamedTuple):
    """What a picture shows, from top to bottom.

    Args:
        rows: of cards, 1..13 each, 0 for one that lies face down.
        lines: of text below them.
    """

    rows: tuple[tuple[int, ...], ...]
    lines: tuple[str, ...]


def render(scene: Scene) -> Any:
    """The scene as a Pillow image in RGB. Equal scenes are equal pixels.

    Raises:
        MissingExtra: Pillow is not installed.
    """
    image = imported("PIL.Image", "pictures").new("RGB", (SIZE, SIZE), _TABLE)
    draw = imported("PIL.ImageDraw", "pictures").Draw(image)
    text_height = 34 if scene.rows else 56
    room = SIZE - len(scene.lines) * text_height - 2 * _GAP
    top = _GAP
    for row in scene.rows:
        height = room // len(scene.rows)
        _lay(image, row, top, height - _GAP)
        top += height
    if not scene.rows:
        top = (SIZE - len(scene.lines) * text_height) // 2
    for line in scene.lines:
        size = text_height - 8
        while size > 8 and draw.textlength(line, font=_font(size)) > SIZE - 4 * _GAP:
            size -= 1
        draw.text((SIZE // 2, top + text_height // 2), line, fill=_CHALK, font=_font(size), anchor="mm")
        top += text_height
    return image


def _lay(image: Any, cards: tuple[int, ...], top: int, height: int) -> None:
    """Cards side by side, closer together and smaller the more they are."""
    count = max(len(cards), 2)
    width = min((SIZE - _GAP) // min(count, _MOST_IN_A_ROW) - _GAP, height * 5 // 7)
    height = min(height, width * 7 // 5)
    step = width + _GAP if len(cards) <= _MOST_IN_A_ROW else (SIZE - 2 * _GAP - width) // (len(cards) - 1)
    left = (SIZE - step * (len(cards) - 1) - width) // 2
    for place, card in enumerate(cards):
        image.paste(_card(card, place % 4, width, height), (left + place * step, top))


@cache
def _card(card: int, suit: int, width: int, height: int) -> Any:
    image = imported("PIL.Image", "pictures").new("RGB", (width, height), _TABLE)
    draw = imported("PIL.ImageDraw", "pictures").Draw(image)
    box = (0, 0, width - 1, height - 1)
    if card == 0:
        draw.rounded_rectangle(box, width // 10, fill=(60, 84, 150), outline=_EDGE)
        draw.rounded_rectangle((5, 5, width - 6, height - 6), width // 12, outline=_CARD, width=2)
        return image
    colour = _RED if suit in (1, 2) else _BLACK
    draw.rounded_rectangle(box, width // 10, fill=_CARD, outline=_EDGE)
    name = _FACES.get(card, str(card))
    draw.text((width // 2, height * 7 // 20), name, fill=colour, font=_font(width * 11 // 20), anchor="mm")
    _pip(draw, suit, width // 2, height * 15 // 20, width // 4, colour)
    return image


def _pip(draw: Any, suit: int, x: int, y: int, size: int, colour: tuple[int, int, int]) -> None:
    """A spade, heart, diamond or club of about `size` pixels around a point."""
    half, third = size // 2, max(size // 3, 2)

    def dot(across: int, down: int) -> None:
        draw.ellipse((across - third, down - third, across + third, down + third), fill=colour)

    if suit == 0:
        draw.polygon([(x, y - half), (x - size // 2 - 2, y + third), (x + size // 2 + 2, y + third)], fill=colour)
        dot(x - third, y + third // 2)
        dot(x + third, y + third // 2)
    elif suit == 1:
        draw.polygon([(x, y + half + 2), (x - half - 2, y), (x + half + 2, y)], fill=colour)
        dot(x - third, y - third // 2)
        dot(x + third, y - third // 2)
    elif suit == 2:
        draw.polygon([(x, y - half - 2), (x + half, y), (x, y + half + 2), (x - half, y)], fill=colour)
    else:
        dot(x, y - third)
        dot(x - third, y + third // 2)
        dot(x + third, y + third // 2)
    if suit in (0, 3):
        draw.polygon([(x, y), (x - third, y + half + 4), (x + third, y + half + 4)], fill=colour)


@cache
def _font(size: int) -> Any:
    return imported("PIL.ImageFont", "pictures").load_default(size)
