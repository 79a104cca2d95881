"""GridSim: run the battery of a small grid through one day of prices. See docs/gridsim.md."""
