"""A run on disk: checkpoints, saves of a stage, what the run is, its agent and its results.

`identity` decides whether a run may go on in a folder; `agent_files` holds `save` and `load`.
"""
