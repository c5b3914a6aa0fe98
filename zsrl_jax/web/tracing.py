"""A domain's functions as tables that a browser can follow, found by trying them out.

    observation   each entry is one entry of an MjData field, or a known function of it: `observe`
                  is called on fields filled with random numbers, which come back in their places
    quantity      each is one entry of an MjData field: both are computed for random states
    model         its XML files, compiled again and compared with the model itself

So a domain of the user's own needs no second description. What cannot be found so is told by name.
"""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np

from zsrl_jax.envs import Domain, Simulator
from zsrl_jax.errors import DataError
from zsrl_jax.rewards import quantity_columns

FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "same": lambda x: x, "asinh": np.arcsinh, "log1p": np.log1p, "sin": np.sin, "cos": np.cos,
    "tanh": np.tanh, "negative": np.negative,
}  # fmt: skip
FIELDS = (  # of MjData, where quantities are looked for; all are there after mj_subtreeVel
    "qpos", "qvel", "act", "xpos", "xipos", "xmat", "subtree_com", "subtree_linvel",
    "subtree_angmom", "sensordata", "xquat", "cvel",
)  # fmt: skip
PROBES = 48  # random states on which a quantity is compared
CLOSE = 1e-8  # relative to the largest value of a quantity


class Entry(NamedTuple):
    """One number of the simulation: an entry of a flattened MjData field, and a function of it."""

    field: str
    place: int
    function: str = "same"


class _Probe:
    """MjData fields with environments as axis 0, filled with random numbers when they are read."""

    def __init__(self, model: mujoco.MjModel, seed: int, batch: int = 2):
        self._data, self._batch = mujoco.MjData(model), batch
        self._draw = np.random.default_rng(seed)
        self.drawn: dict[str, np.ndarray] = {}

    def __getattr__(self, name: str) -> np.ndarray:
        shape = np.shape(getattr(self._data, name))
        if name not in self.drawn:
            self.drawn[name] = self._draw.uniform(0.1, 0.9, (self._batch, *shape))
        return np.asarray(self.drawn[name])


def trace_observation(domain: Domain) -> list[Entry]:
    """Return where each entry of an observation is read from."""
    model = domain.model()
    first, second = _Probe(model, 0), _Probe(model, 1)
    try:
        seen, again = np.asarray(domain.observe(first)), np.asarray(domain.observe(second))
    except (AttributeError, TypeError, ValueError, IndexError) as error:
        raise DataError(
            f"the observation of {domain.name} cannot be followed by the page ({error}): expected "
            "one made of entries of MjData's fields"
        ) from error
    found = []
    for i in range(seen.shape[1]):
        entry = _origin(seen[:, i], first.drawn)
        if entry is None or not np.allclose(_read(entry, second.drawn), again[:, i], rtol=1e-12):
            raise DataError(
                f"entry {i} of {domain.name}'s observation cannot be followed by the page: "
                f"expected an entry of an MjData field, or one of {', '.join(FUNCTIONS)} of it"
            )
        found.append(entry)
    return found


def _read(entry: Entry, fields: Mapping[str, np.ndarray]) -> np.ndarray:
    field = fields[entry.field]
    return FUNCTIONS[entry.function](field.reshape(len(field), -1)[:, entry.place])


def _origin(value: np.ndarray, fields: Mapping[str, np.ndarray]) -> Entry | None:
    """Return the entry that a column was read from, if there is one."""
    for field, drawn in fields.items():
        flat = drawn.reshape(len(drawn), -1)
        for name, function in FUNCTIONS.items():
            same = np.isclose(function(flat), value[:, None], rtol=1e-12, atol=0).all(axis=0)
            if same.any():
                return Entry(field, int(same.argmax()), name)
    return None


def trace_quantities(domain: Domain) -> dict[str, Entry | None]:
    """Return where each quantity is read from after mj_forward and mj_subtreeVel; None: nowhere."""
    physics = _random_states(domain)
    measured = _measure(domain, physics)
    found: dict[str, Entry | None] = {}
    for name, column in quantity_columns(domain, physics).items():
        found[name] = None
        size = max(float(np.abs(column).max()), 1e-6)
        for field, values in measured.items():
            same = (np.abs(values - column[:, None]) <= CLOSE * size).all(axis=0)
            if same.any():
                found[name] = Entry(field, int(same.argmax()))
                break
    return found


def _random_states(domain: Domain) -> np.ndarray:
    """Return states that random actions reach, in steps apart."""
    draw, simulator = np.random.default_rng(0), Simulator(domain, PROBES, 1)
    simulator.reset(np.arange(PROBES))
    for _ in range(8):
        simulator.step(draw.uniform(-1, 1, (PROBES, domain.action_dim)))
    return simulator.physics()


def _measure(domain: Domain, physics: np.ndarray) -> dict[str, np.ndarray]:
    """Return fields of MjData [state, entry] for states [state, P]."""
    model = domain.model()
    data, rows = mujoco.MjData(model), []
    for state in physics:
        data.qpos, data.qvel, data.act = np.split(state, [model.nq, model.nq + model.nv])
        mujoco.mj_forward(model, data)
        mujoco.mj_subtreeVel(model, data)
        row = {name: np.array(getattr(data, name)).reshape(-1) for name in FIELDS}
        rows.append(row)
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def find_xml(domain: Domain) -> dict[str, str]:
    """Return the model's XML files, the main one first; refuse files that give another model."""
    if domain.xml is None:
        raise DataError(
            f"the domain '{domain.name}' names no XML, so its robot cannot be put into a page: "
            "expected Domain(..., xml=function that returns {file name: text})"
        )
    files = {str(name): str(text) for name, text in domain.xml().items()}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            place = Path(folder) / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        model = _compile(domain.name, Path(folder) / next(iter(files)))
    if different := _differences(model, domain.model()):
        raise DataError(
            f"the XML of '{domain.name}' compiles to another model than its own (it differs in "
            f"{', '.join(different[:4])}): expected the files that its model is made of"
        )
    return files


def _compile(name: str, file: Path) -> mujoco.MjModel:
    handler = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        return mujoco.MjModel.from_xml_path(str(file))
    except ValueError as error:
        told = " ".join(str(error).split())[:160]
        raise DataError(
            f"the XML of '{name}' cannot be put into a page ({told}): expected files that need no "
            "others, such as meshes or textures"
        ) from error
    finally:
        mujoco.set_mju_user_warning(handler)


def _differences(one: mujoco.MjModel, other: mujoco.MjModel) -> list[str]:
    """Name the arrays of numbers in which two models differ."""
    found = []
    for name in dir(one):
        if name.startswith(("_", "name")) or name in ("paths", "text_data"):
            continue
        value, wanted = (getattr(model, name) for model in (one, other))
        if isinstance(value, np.ndarray | int | float) and not np.array_equal(value, wanted):
            found.append(name)
    return found
