"""Train on served tasks with stock verl."""
