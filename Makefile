# Filled in by the project part.
help:
	@echo "make train | make test | make venv"
