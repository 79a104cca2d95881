"""Questions with answers that can be checked, by the generators of Reasoning Gym (Stojanovski et al., 2025)."""
