"""Foreign file formats: one file per format, and the file readers that they share.

Each returns a `Source` of episodes; `registry` names them and tells them apart by content.
"""
