"""The commands, as they are called in a checkout: python -m experiments.NAME."""
