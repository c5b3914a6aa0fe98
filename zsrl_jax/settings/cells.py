"""Any run by name: a cell of the study (domain, encoder, sampler), or an oracle, at a scale.

zsrl_jax.config("cheetah", "fb", "btd", scale="laptop")
--config=configs/cell.py:cheetah,fb,btd,laptop         the same by flag
--config=configs/cell.py:cheetah,fb_tuned,btd          a preset in the encoder's place
--config=configs/oracle.py:walker,run                  TD3 on the true reward of a task
"""

from collections.abc import Iterable

from ml_collections import ConfigDict

from zsrl_jax.encoders import ENCODERS
from zsrl_jax.envs import DOMAINS
from zsrl_jax.errors import ConfigError, TaskError, unknown
from zsrl_jax.registration import missing_part
from zsrl_jax.settings import fields
from zsrl_jax.settings.names import OTHER
from zsrl_jax.settings.scales import OF_DOMAIN, OF_ENCODER, PRESETS, SCALES, choose_scale
from zsrl_jax.tasks import SAMPLERS


def config(domain: str, encoder: str, sampler: str, scale: str = "auto") -> ConfigDict:
    """Return the config of one run: a locked ConfigDict whose fields can be set.

    `domain` is a known one, or `other` for data of a robot of your own. `scale` is auto (paper
    where JAX sees an accelerator, laptop on a CPU), paper, laptop or smoke. An encoder may also be
    a preset: fb_tuned is fb with the settings of published tuned runs.
    """
    preset = PRESETS.get(encoder)
    base = preset.encoder if preset else encoder
    missing_part(base, None if domain == OTHER else domain)  # looks at entry points
    known: dict[str, Iterable[str]] = {
        "domain": [*DOMAINS, OTHER],
        "encoder": [*ENCODERS, *PRESETS],
        "sampler": SAMPLERS,
    }
    for (kind, names), name in zip(known.items(), (domain, encoder, sampler), strict=True):
        if name not in names:
            raise TaskError(unknown(kind, name, names))
    chosen, reason = choose_scale(scale)
    made = fields.get_config(domain, base, sampler).lock()  # scales add no field
    own = OF_ENCODER.get((chosen, base), {}), OF_DOMAIN.get((chosen, domain), {})
    for table in (SCALES[chosen], *own):
        made.update(table)
    if preset:
        made.update(preset.fields)
        made.encoder.batch, made.preset = preset.batch * made.encoder.batch, encoder
    made.scale, made.scale_reason = chosen, reason
    return made


def oracle_config(domain: str, tasks: Iterable[str] = (), scale: str = "auto") -> ConfigDict:
    """Return the config of an oracle: TD3 on the true reward of tasks, by default of all.

    All tasks (x seeds) are trained in one program, on the data and with the policy's fields of a
    cell of that scale. The critic has a plain head, because there is no z.
    """
    if domain not in DOMAINS:
        raise TaskError(unknown("domain", domain, DOMAINS))
    known = tuple(DOMAINS[domain].tasks)
    asked = tuple(dict.fromkeys(tasks))
    for name in asked:
        if name not in (*known, "all"):
            raise TaskError(unknown(f"{domain} task", name, (*known, "all", *SCALES)))
    made = config(domain, "fb", "uniform", scale)
    with made.unlocked():
        del made.encoder, made.tasks, made.infer
        chosen = known if not asked or "all" in asked else asked
        made.oracle = ConfigDict({"tasks": chosen, "center": True})  # one policy per task
        made.policy.head = "scalar"
    return made.lock()


def cell_from_text(text: str = "") -> ConfigDict:
    """Read DOMAIN,ENCODER,SAMPLER[,SCALE]: the argument of configs/cell.py."""
    parts = _parts(text)
    if len(parts) not in (3, 4):
        raise ConfigError(
            f"configs/cell.py:{text} has {len(parts)} parts: expected "
            "configs/cell.py:domain,encoder,sampler[,scale], such as :cheetah,fb,btd,smoke"
        )
    return config(*parts)


def oracle_from_text(text: str = "") -> ConfigDict:
    """Read DOMAIN[,TASK...][,SCALE]: the argument of configs/oracle.py."""
    parts = _parts(text)
    scale = parts.pop() if len(parts) > 1 and parts[-1] in (*SCALES, "auto") else "auto"
    if not parts:
        raise ConfigError(
            "configs/oracle.py names no domain: expected configs/oracle.py:domain[,task...]"
            "[,scale], such as :walker,run or :walker,all,smoke"
        )
    domain, *tasks = parts
    if early := [name for name in tasks if name in (*SCALES, "auto")]:
        raise ConfigError(f"configs/oracle.py:{text}: the scale ({early[0]}) comes last")
    return oracle_config(domain, tasks, scale)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")] if text else []
