"""Missions in grid worlds, told in words: BabyAI's levels in Minigrid (Chevalier-Boisvert et al., 2019)."""
