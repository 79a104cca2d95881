"""A memory of this bundle's own."""


class Diary:
    """Actions alone."""

    def __init__(self):
        self.actions = []

    def add(self, past):
        self.actions.append(past.action)

    def render(self, observation, budget, size):
        text = "Done: " + ", ".join(self.actions) if self.actions else ""
        return text if size(text) <= budget else ""
