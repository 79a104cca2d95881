"""Quests that TextWorld generates: a coin, a treasure, and things to be put in their places."""
