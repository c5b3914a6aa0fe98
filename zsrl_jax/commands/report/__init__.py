"""Pages and figures of finished runs: python -m experiments.report RUNS --out report/."""
