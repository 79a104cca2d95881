"""Push every box onto a target, in rooms made by playing backwards."""
