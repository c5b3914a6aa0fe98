"""The paper's tables and figures: python -m experiments.paper NAME --scale=laptop|paper|smoke."""
