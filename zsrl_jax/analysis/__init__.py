"""Analysis of results: statistics of scores, geometry of tasks, studies of an encoder alone.

Nothing here trains a policy; the paper's studies and the report use it.
"""
