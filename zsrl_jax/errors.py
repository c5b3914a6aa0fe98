"""Errors for bad input. Each is one line: the thing, what was expected, what to do."""

import difflib
from collections.abc import Iterable


class ZsrlError(Exception):
    """Bad input; the command line prints its one line and exits with code 2."""


class ConfigError(ZsrlError):
    """A config field or its value does not exist."""


class DataError(ZsrlError):
    """A dataset or an array is missing, damaged or of the wrong shape."""


class DamageError(DataError):
    """A file of a dataset is damaged: its path and key, what was expected, what was found."""

    def __init__(self, path: object, key: str | None, expected: str, found: str):
        where = f"episode '{path}'" + (f", key '{key}'" if key else "")
        super().__init__(f"{where}: expected {expected}, found {found}")
        self.path, self.key, self.expected, self.found = str(path), key, expected, found

    def parts(self) -> tuple[str, str | None, str, str]:
        """Return the arguments it was made of, so that they can be saved."""
        return self.path, self.key, self.expected, self.found


class DiskError(ZsrlError):
    """A file could not be written: the disk is full, over quota or read-only."""


class LockedError(ZsrlError):
    """Another process works in the folder."""


class DivergedError(ZsrlError):
    """One or more seeds of a run have reached NaN or infinity."""


class TaskError(ZsrlError):
    """A domain, task, encoder or sampler of that name does not exist."""


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Return the message for an unknown name, with the nearest known one."""
    options = sorted(known)
    near = difflib.get_close_matches(name, options, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return f"unknown {kind} '{name}': {hint}known: {', '.join(options)}"


def missing_domain(domain: str | None, instead: str = "") -> str:
    """Return the message for what needs a domain that is not known here, and what to do."""
    then = f", or {instead}" if instead else ""
    if domain is None:
        return (
            "the agent's data is of no known domain, so there is no simulator: register yours "
            f"(zsrl_jax.register(domain=...)) and name it when you train{then}"
        )
    return (
        f"domain '{domain}' is not known in this process: zsrl_jax.register(domain=...) it "
        f"first{then}"
    )
