"""The settings of a run: every field once, the scales, allowed values, and names of runs.

`zsrl_jax.config(domain, encoder, sampler, scale)` builds any run from here without a checkout.
This package is not called `config`, because `zsrl_jax.config` is the function.
"""
