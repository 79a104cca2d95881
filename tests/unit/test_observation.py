import math

import pytest

from agent_env import Observation


def test_sequences_become_tuples_and_defaults_are_empty():
    seen = Observation("text", images=["data:,a"], actions=["go"])
    assert seen.images == ("data:,a",)
    assert seen.actions == ("go",)
    assert Observation("text").images == ()
    assert Observation("text").actions is None


def test_key_is_the_state_or_a_hash_of_what_is_seen():
    assert Observation("text", state="room-1").key == "room-1"
    assert Observation("a", images=["b"]).key == Observation("a", images=["b"], reward=1.0).key
    assert Observation("ab").key != Observation("a", images=["b"]).key
    assert Observation("a", images=["bc"]).key != Observation("ab", images=["c"]).key


def test_over_is_terminated_or_truncated():
    assert [Observation("", terminated=t, truncated=u).over for t in (0, 1) for u in (0, 1)] == [0, 1, 1, 1]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"text": 3}, r"Observation.text: expected str, got int"),
        ({"actions": "go north"}, r"Observation.actions: expected a sequence of str, got 'go north'"),
        ({"images": [b"x"]}, r"Observation.images: bytes that are no PNG, JPEG or WebP file \(they begin with b'x'\)"),
        ({"images": "data:,"}, r"Observation.images: expected a sequence of images, got one str"),
        ({"images": b"\x89PNG\r\n\x1a\n"}, r"Observation.images: expected a sequence of images, got one bytes"),
        ({"images": [3]}, r"Observation.images: expected a PIL image, a picture's bytes or a URL, got int"),
        ({"state": (1, 2)}, r"Observation.state: expected str or None, got tuple"),
        ({"reward": math.nan}, r"Observation.reward: NaN and infinities are refused"),
        ({"info": {"cost": [math.inf]}}, r"Observation.info.cost\[0\]: NaN"),
    ],
)
def test_wrong_values_are_named(fields, message):
    with pytest.raises(ValueError, match=message):
        Observation(**{"text": "", **fields})
