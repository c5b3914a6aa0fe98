"""Analysis: statistics of scores, geometry of tasks, studies of encoders, prompts, health of runs.

Nothing here trains a policy; the paper's studies and the report use it.
"""
