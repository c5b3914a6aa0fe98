"""A run on disk: checkpoints, saves of a stage, its settings, its agent and its results.

`identity` decides whether a run may continue in a folder; `agent_files` holds `save` and `load`.
"""
