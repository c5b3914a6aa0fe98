"""The file formats of others: one file per format, and the readers of files they share.

Each gives a `Source` of episodes; `registry` names them and tells them apart by content.
"""
