"""The main job in one command: `make demo`."""
