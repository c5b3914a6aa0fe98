"""State encoders by name: one file per objective (`make`, `default_config`), one line here.

A file may also have CHOICES: the values that a field of its config may take.
"""

from types import ModuleType

from zsrl_jax.encoders import (
    aenc,
    byol,
    byol_gamma,
    contrastive,
    fb,
    fb_onestep,
    hilp,
    icm,
    laplacian,
    lra_p,
    lra_sr,
    rldp,
    trans,
)

ENCODERS: dict[str, ModuleType] = {
    "aenc": aenc,
    "trans": trans,
    "lra_p": lra_p,
    "lra_sr": lra_sr,
    "byol": byol,
    "byol_gamma": byol_gamma,
    "fb": fb,  # the paper's seven end here
    "laplacian": laplacian,
    "contrastive": contrastive,
    "icm": icm,
    "hilp": hilp,
    "rldp": rldp,
    "fb_onestep": fb_onestep,
}
