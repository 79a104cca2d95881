"""verl on CPU: platform, engines and a rollout server on transformers."""
