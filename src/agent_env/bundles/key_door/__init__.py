"""A walled grid with a key, a door and a goal behind it."""
