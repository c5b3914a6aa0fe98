"""What a run may be told: every field once, the scales, what is allowed, and names of runs.

`zsrl_jax.config(domain, encoder, sampler, scale)` builds any run from here without a checkout.
The room is not called `config`, because that name is the function.
"""
