"""Cheetah, forward-backward features, tasks from the Behavioural Task Distribution."""

from configs.cell import get_cell


def get_config(scale: str = "auto"):
    """Return the run at a scale: auto, laptop, paper or smoke."""
    return get_cell("cheetah", "fb", "btd", scale or "auto")
