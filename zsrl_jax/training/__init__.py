"""Training: stages in a loop over updates, for all seeds, with log, saves and resume.

`pipeline` is the whole method in order. Nothing that acts or answers prompts imports this room.
"""
