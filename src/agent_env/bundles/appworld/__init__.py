"""AppWorld: code that acts in nine everyday apps, each world in a process of AppWorld's own venv."""
