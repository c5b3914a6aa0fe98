"""What the browser follows instead of a domain's functions: found by itself, or refused by name."""

from typing import NamedTuple

import mujoco
import numpy as np
import pytest

from zsrl_jax.envs import DOMAINS, Domain, Simulator
from zsrl_jax.errors import DataError
from zsrl_jax.rewards import quantity_columns
from zsrl_jax.web import tracing

ROBOTS = ("cheetah", "walker", "quadruped", "point_mass_maze")


@pytest.mark.parametrize("name", ROBOTS)
def test_observations_and_quantities_are_found(name):
    domain = DOMAINS[name]
    entries, places = tracing.trace_observation(domain), tracing.trace_quantities(domain)
    assert len(entries) == domain.obs_dim and None not in places.values()
    simulator = Simulator(domain, 2, 1)
    simulator.reset([3, 4])
    obs = simulator.step(np.full((2, domain.action_dim), 0.3))
    fields = {e.field: np.array(getattr(simulator._batch, e.field)) for e in entries}
    seen = np.stack([tracing._read(entry, fields) for entry in entries], axis=1)
    np.testing.assert_array_equal(seen, obs)
    physics = simulator.physics()
    measured = tracing._measure(domain, physics)
    for quantity, column in quantity_columns(domain, physics).items():
        field, index, _ = places[quantity]
        np.testing.assert_allclose(measured[field][:, index], column, rtol=1e-7, atol=1e-7)


def test_an_observation_that_cannot_be_followed_is_told():
    domain = DOMAINS["cheetah"]
    mixed = domain._replace(observe=lambda data: data.qpos[:, :2] @ np.ones((2, 1)))
    with pytest.raises(DataError, match="entry 0 of cheetah's observation cannot be followed"):
        tracing.trace_observation(mixed)
    strange = domain._replace(observe=lambda data: data.no_such_field)
    with pytest.raises(DataError, match="cannot be followed by the page.*no_such_field"):
        tracing.trace_observation(strange)


def test_functions_of_entries_are_found():
    domain = DOMAINS["quadruped"]._replace(observe=lambda data: np.log1p(data.sensordata[:, 3:5]))
    assert tracing.trace_observation(domain) == [
        ("sensordata", 3, "log1p"), ("sensordata", 4, "log1p"),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ROBOTS)
def test_the_xml_is_the_model_s(name):
    files = tracing.find_xml(DOMAINS[name])
    assert next(iter(files)) == f"{name}.xml"
    assert len(files) == (1 if name == "point_mass_maze" else 4)  # with those that it includes


def test_an_xml_that_is_missing_wrong_or_not_whole_is_told():
    domain = DOMAINS["cheetah"]
    with pytest.raises(DataError, match="'cheetah' names no XML.*expected Domain\\(..., xml="):
        tracing.find_xml(domain._replace(xml=None))
    with pytest.raises(DataError, match="compiles to another model.*differs in"):
        tracing.find_xml(domain._replace(xml=DOMAINS["walker"].xml))
    mesh = '<mujoco><asset><mesh file="a.stl"/></asset></mujoco>'
    with pytest.raises(DataError, match="cannot be put into a page.*need no others"):
        tracing.find_xml(domain._replace(xml=lambda: {"a.xml": mesh}))


def test_a_quantity_without_a_place_is_none():
    domain = DOMAINS["cheetah"]

    def squared(physics):
        return domain.quantities(physics)._replace(speed=physics[..., 0] ** 2 + 7.0)

    assert tracing.trace_quantities(domain._replace(quantities=squared))["speed"] is None


OWN = """<mujoco><option timestep="0.01"/><worldbody><geom type="plane" size="5 5 .1"/>
<body name="arm" pos="0 0 1"><joint name="turn" axis="0 1 0" limited="true" range="-90 90"/>
<geom type="capsule" size=".05" fromto="0 0 0 0 0 -.6"/></body></worldbody>
<actuator><motor joint="turn" gear="2" ctrlrange="-1 1" ctrllimited="true"/></actuator></mujoco>"""


class ArmQuantities(NamedTuple):
    angle: object
    energy: object  # has no place in MjData


def test_a_domain_of_one_s_own_is_followed():
    model = mujoco.MjModel.from_xml_string(OWN)
    arm = Domain(
        name="arm", obs_dim=3, action_dim=1, physics_dim=2, substeps=2, model=lambda: model,
        start=lambda model, data, random: None,
        observe=lambda data: np.concatenate(
            [np.sin(data.qpos), np.cos(data.qpos), data.qvel], axis=1
        ),
        quantities=lambda s: ArmQuantities(s[..., 0], s[..., 1] ** 2 - s[..., 0] ** 3),
        tasks={}, xml=lambda: {"arm.xml": OWN},
    )  # fmt: skip
    assert tracing.trace_observation(arm) == [
        ("qpos", 0, "sin"), ("qpos", 0, "cos"), ("qvel", 0, "same"),
    ]  # fmt: skip
    assert tracing.trace_quantities(arm) == {"angle": ("qpos", 0, "same"), "energy": None}
    assert tracing.find_xml(arm) == {"arm.xml": OWN}
    half = arm._replace(xml=lambda: {"arm.xml": OWN.replace("-.6", "-.60001")})
    with pytest.raises(DataError, match="compiles to another model"):
        tracing.find_xml(half)
