"""Start a command so that an error is one clear line and an exit code, never a traceback.

0 finished; 2 bad input, or refused; 3 a seed became NaN or infinite; 74 the disk takes no files;
75 stopped by a signal: the same command again goes on.
"""

import errno
import gc
import os
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

from absl import app, flags, logging
from ml_collections import ConfigDict

from zsrl_jax.devices import compile_cache, peers, processes, signals
from zsrl_jax.errors import ConfigError, DiskError, DivergedError, ZsrlError
from zsrl_jax.settings.by_name import resolve

GRACE = 2.0  # seconds that the first of several processes waits before it ends them all
REFUSED, FAILED, NO_DISK, STOPPED = 2, 3, 74, 75
PICTURES = ("png", "svg", "pdf", "jpg", "jpeg", "webp")
DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM)


def run(main: Callable, join: Callable | None = None) -> None:
    """Parse flags and run main(argv), after `join` has met the other processes of a run."""
    logging.set_verbosity(logging.WARNING)  # Orbax logs a lot
    warnings.formatwarning = one_line
    try:
        signals.leave_at_once()
        if join is not None:
            join()
        compile_cache.keep()
        app.run(main, flags_parser=parse)
    except (ZsrlError, OSError) as error:
        _leave(_fail(error), error)
    except signals.Stopped as error:
        _tell(f"\nstopped by {error}: the same command again goes on from here", error)
        gc.freeze()  # otherwise Python's last collection takes seconds with JAX
        _leave(STOPPED, error)
    except KeyboardInterrupt as error:  # there was nothing to save
        _tell("\nstopped", error)
        _leave(130, error)
    except Exception as error:
        if not processes.several():
            raise
        if not processes.is_lost(error):
            traceback.print_exc()
            _leave(1, error)
        told = " ".join(str(error).split())[:200]
        _tell(f"\nerror: another process of the run is gone ({told}): the same command again, in "
              "all of them, goes on from the last save", error)  # fmt: skip
        _leave(STOPPED, error)


def _leave(code: int, error: BaseException) -> None:
    """End the command; one of several processes ends at once, unless all of them end too."""
    if not processes.several() or processes.is_shared(error):
        sys.exit(code)
    sys.stdout.flush()
    sys.stderr.flush()
    if processes.is_first():
        time.sleep(GRACE)  # the others may be ending for the same reason, with their own exit codes
    os._exit(code)


def _tell(text: str, error: BaseException) -> None:
    """Print why the command ends, unless the first process prints it for all."""
    if processes.is_shared(error) and not processes.is_first():
        return
    if processes.is_shared(error) or not processes.several() or peers.claim():
        print(text, file=sys.stderr)
    else:
        time.sleep(GRACE)  # the thread that noticed it first prints, and ends this process


def one_line(message: Warning | str, *_: object, **__: object) -> str:
    """Format a warning as one line, without its place in the code."""
    return f"warning: {' '.join(str(message).split())}\n"


def refuse_arguments(argv: list[str]) -> None:
    """Refuse what is not a flag: with a forgotten dash, a field would silently not be set."""
    if len(argv) > 1:
        raise ConfigError(f"unexpected argument '{argv[1]}': flags start with --")


def check_picture(flag: str, name: str | None) -> None:
    """Refuse the name of a picture before it is drawn."""
    place = Path(name or "x.png")
    if place.suffix[1:].lower() not in PICTURES:
        raise ConfigError(f"{flag}={name}: expected a name that ends in .png, .svg or .pdf")
    if not place.parent.is_dir():
        raise ConfigError(f"{flag}={name}: the folder '{place.parent}' does not exist")


def read_config(flag: flags.FlagHolder) -> ConfigDict:
    """Return the config of a config-file flag, or raise why there is none."""
    config = flag.value
    if config is None:
        raise ConfigError(f"no config: expected --{flag.name}=configs/cheetah_fb_btd.py or another")
    try:
        is_config = hasattr(config, "to_dict")
    except OSError as error:  # ml_collections reports a missing file only on access
        raise ConfigError(f"the config file cannot be loaded: {_reason(error)}") from error
    if not is_config:
        raise ConfigError(
            f"get_config of the config file returns a {type(config).__name__}: expected a "
            "ConfigDict, such as zsrl_jax.config('cheetah', 'fb', 'btd')"
        )
    return config


def _reason(error: OSError) -> str:
    found = re.search(r"\[Errno \d+\] (.*)", str(error))
    return found[1] if found else str(error)


def _with_named_configs(argv: list[str]) -> list[str]:
    """Replace config files that do not exist by the package's config of the same name."""
    found = []
    for word in argv:
        name, equals, value = word.partition("=")
        is_config = equals and name.lstrip("-") in ("config", "recipe")
        found.append(f"{name}={resolve(value)}" if is_config else word)
    return found


def parse(argv: list[str], known: flags.FlagValues = flags.FLAGS) -> list[str]:
    """Read flags; a flag or a field that does not exist ends the command with one line."""
    try:
        return known(_with_named_configs(argv))
    except (AttributeError, KeyError) as error:  # a locked config names the nearest field
        if "has no attribute 'get_config'" in str(error):
            told = "has no function get_config: expected one that returns a ConfigDict"
            sys.exit(_fail(ConfigError(f"the config file {_config_file(argv)} {told}")))
        found = re.search(r'Did you mean "(\S+)" instead of "(\S+)"', str(error))
        name = found[2] if found else str(error).strip("'\"")
        hint = (
            f"did you mean '{found[1]}'?"
            if found
            else "all fields are in zsrl_jax/settings/fields.py"
        )
        sys.exit(_fail(ConfigError(f"unknown config field '{name}': {hint}")))
    except (flags.Error, ZsrlError, OSError, TypeError, ValueError) as error:
        sys.exit(_fail(error))
    except Exception as error:  # in the code of a config file
        told = f"{type(error).__name__}: {error}"
        sys.exit(_fail(ConfigError(f"the config file {_config_file(argv)} fails: {told}")))


def _config_file(argv: list[str]) -> str:
    """Return the config file that the flags name."""
    named = [word.partition("=") for word in argv]
    files = [value for name, _, value in named if name.lstrip("-") in ("config", "recipe")]
    return f"'{files[-1].partition(':')[0]}'" if files else ""


def _fail(error: BaseException) -> int:
    text = " ".join(str(error).split())
    _tell(f"error: {text}", error)
    if isinstance(error, DivergedError):
        return FAILED
    full = isinstance(error, OSError) and error.errno in DISK
    return NO_DISK if full or isinstance(error, DiskError) else REFUSED
