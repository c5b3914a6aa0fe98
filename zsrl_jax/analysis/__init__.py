"""What results say: statistics of scores, geometry of tasks, and what an encoder alone tells.

Nothing here trains a policy; the studies of the paper and the report are made of it.
"""
