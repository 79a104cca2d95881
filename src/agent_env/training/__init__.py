"""Training: the client of a task server, and the trainers it feeds."""
