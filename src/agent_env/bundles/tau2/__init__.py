"""Customer service in three domains, by the simulators, policies and evaluation of tau2-bench (Barres et al., 2025)."""
