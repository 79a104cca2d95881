"""Built-in bundles, each a folder as a user would write it."""
