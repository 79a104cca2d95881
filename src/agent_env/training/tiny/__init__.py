"""A language model small enough to train on a laptop: its tokenizer, its weights and its warm start."""
