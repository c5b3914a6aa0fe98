"""Zero-shot offline reinforcement learning in JAX."""
