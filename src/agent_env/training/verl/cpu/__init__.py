"""verl on a CPU: a platform, FSDP2 engines and a rollout server, chosen by ``VERL_PLATFORM=cpu`` alone."""
