"""Data of our own: an agent that is rewarded for novelty collects reward-free episodes.

`rnd` holds the equations, `collector` plays and learns, `collection` manages the data on disk.
"""
