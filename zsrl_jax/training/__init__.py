"""Training: stages that loop over updates for all seeds, with a log, saves and resume.

`pipeline` runs the whole method in order. Code that acts or answers prompts does not import this.
"""
