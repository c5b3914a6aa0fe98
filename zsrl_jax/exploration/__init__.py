"""Data of our own: an agent paid for novelty collects reward-free episodes.

`rnd` holds its equations, `collector` plays and learns, `collection` keeps it on disk.
"""
