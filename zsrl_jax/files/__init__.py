"""What lasts on disk: locks, and files or folders that appear whole or not at all.

Data, collections and runs all use these functions.
"""
