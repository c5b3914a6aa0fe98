"""The robots: one file per domain, each of which builds one `Domain` value.

`planar` holds what cheetah and walker share; the table of all domains is `envs.registry`.
"""
