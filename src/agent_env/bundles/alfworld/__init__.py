"""ALFWorld's households in text, on its own engine: official games where they are, else problems of our own."""
