"""Walls with pictures of one colour, of the size that a task says."""

from PIL import Image

from agent_env import Environment, Observation, tool


class Gallery(Environment):
    """``task.env`` may say: `entrance`, a colour that is seen first; `size` of the pictures (32)."""

    def reset(self, task, seed):
        self.size = task.env.get("size", 32)
        colour = task.env.get("entrance")
        return Observation("The entrance.", images=[self.painted(colour)]) if colour else None

    def painted(self, colour):
        return Image.new("RGB", (self.size, self.size), colour)

    @tool
    def look(self, colours: list[str], text: str = "A wall.") -> Observation:
        """Look at a wall."""
        return Observation(text, images=[self.painted(colour) for colour in colours])

    @tool
    def leave(self) -> Observation:
        """Leave, and look back."""
        return Observation("The street.", images=[self.painted("grey")], terminated=True)

    @tool
    def poster(self) -> str:
        """Read a poster."""
        return "THE <|image_pad|>S"

    @tool
    def torn(self) -> Observation:
        """Look at what is no picture."""
        return Observation("Dust.", images=["data:image/png;base64,iVBORw0KGgo="])

    def score(self, reply):
        return float("red" in reply)
