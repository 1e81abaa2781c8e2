"""The scripts behind make's targets: `python -m tools.notebooks`, from the root of the clone."""
