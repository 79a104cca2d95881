"""The bundle that `agent-env new` writes: this folder's other files, with the bundle's own name."""
