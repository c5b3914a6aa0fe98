"""All that the page knows of an agent: networks, prompt states, tasks, a robot, scores, clips."""

from collections.abc import Mapping, Sequence
from typing import Any

import mujoco
import numpy as np

import zsrl_jax
from zsrl_jax.agent import Agent
from zsrl_jax.envs import Domain, Simulator, find_domain, relabel
from zsrl_jax.errors import DataError, TaskError, missing_domain
from zsrl_jax.prompts import GOAL_RIDGE, GRID
from zsrl_jax.rewards import RewardTextError, parse, quantity_columns
from zsrl_jax.web import tracing
from zsrl_jax.web.clips import Clip, choose_poses
from zsrl_jax.web.networks_of import feature_layers, policy_layers

STARTS = 6
EXAMPLES = (  # shown as buttons, if the domain has their quantities
    ("go forwards", "speed"), ("go backwards", "-speed"), ("stand tall", "height"),
    ("lie low", "-height"), ("stand still", "-abs(speed)"), ("upside down", "-uprightness"),
    ("turn over", "abs(angular_momentum_y)"), ("fast and upright", "speed*(uprightness>0.8)"),
    ("to the right wall", "x"), ("along the lower wall", "(y<-0.2)*abs(speed_x)"),
)  # fmt: skip


def describe(
    agent: Agent, member: int, clips: Sequence[Clip], scores: Mapping[str, Any] | None, call: str
) -> tuple[dict[str, Any], dict[str, np.ndarray], dict[str, str]]:
    """Return the page's facts as JSON, its arrays, and the robot's XML files."""
    if not isinstance(agent, Agent):
        raise DataError("an oracle has no features, so it cannot be prompted: expected an agent")
    if agent.domain is None or agent.domain not in zsrl_jax.DOMAINS:
        raise TaskError(missing_domain(agent.domain))
    if agent.params.prompt_physics is None:
        raise DataError("the agent keeps no physics states, so a reward text has no values")
    domain = find_domain(agent.domain)
    files = tracing.find_xml(domain)
    physics = np.asarray(agent.params.prompt_physics, np.float64)
    columns = quantity_columns(domain, physics)
    phi = agent.features(agent.prompt_states)[member]
    arrays = feature_layers(agent, member) | policy_layers(agent, member)
    arrays |= _prompt_arrays(agent, member, phi)
    arrays |= {f"quantity/{name}": column for name, column in columns.items()}
    arrays["starts"] = _starts(domain)
    arrays["poses"] = physics[choose_poses(phi)]
    untold = [task for task in domain.tasks if task not in domain.texts]
    arrays |= {f"task/{task}": np.asarray(relabel(domain, task, physics)) for task in untold}
    for i, clip in enumerate(clips):
        arrays[f"clip/{i}/obs"], arrays[f"clip/{i}/physics"] = clip.obs, clip.physics
    facts = _inference(agent) | _robot(domain, files, physics)
    facts["quantities"] = _live(domain)
    facts["tasks"] = {task: domain.texts.get(task) for task in domain.tasks}
    facts["examples"] = _examples(tuple(columns))
    facts["clips"] = [clip.label for clip in clips]
    facts |= {"scores": scores, "call": call, "version": zsrl_jax.__version__}
    return facts, arrays, files


def _inference(agent: Agent) -> dict[str, Any]:
    """Return the numbers that decide how a prompt is answered."""
    config, clip = agent.config, float(agent.params.normalizer.clip)
    return {
        "domain": agent.domain,
        "encoder": str(config.encoder.name),
        "dim": agent.z_dim,
        "seeds": agent.num_seeds,
        "radius": float(agent.radius),
        "own": bool(agent.is_own),
        "of_transitions": agent.of_transitions,
        "intercept": agent.has_intercept,
        "ridge": config.infer.ridge if config.infer.ridge == "auto" else float(config.infer.ridge),
        "grid": GRID.tolist(),
        "goal_ridge": GOAL_RIDGE,
        "behaviours": int(config.infer.behaviours),
        "task_behaviours": int(config.tasks.behaviours),
        "nearest": int(config.infer.nearest),
        "pessimism": float(config.policy.pessimism),
        "discount": float(config.tasks.discount),
        "clip": clip if np.isfinite(clip) else None,
    }


def _prompt_arrays(agent: Agent, member: int, phi: np.ndarray) -> dict[str, np.ndarray]:
    """Return what the regression of a reward, goals and demonstrations need."""
    params, arrays = agent.params, {"phi": phi}
    kept = np.arange(len(phi)) % 5 != 0  # as prompts.task_vector leaves every fifth out
    for name, rows in (("all", phi), ("fit", phi[kept])):
        rows = rows.astype(np.float64)
        mean = rows.mean(axis=0) if agent.has_intercept else np.zeros(rows.shape[1])
        value, vector = np.linalg.eigh((rows - mean).T @ (rows - mean) / len(rows))
        arrays |= {f"{name}/mean": mean, f"{name}/value": np.maximum(value, 0.0)}
        arrays[f"{name}/vector"] = vector
    if params.tasks is not None:
        arrays["tasks"] = np.asarray(params.tasks)[member]
        sizes = params.task_size
        size = np.ones(len(arrays["tasks"])) if sizes is None else np.asarray(sizes)[member]
        arrays["task_size"] = size
    if params.centre is not None:
        arrays["centre"] = np.asarray(params.centre)[member]
    known = np.asarray(params.prompt_obs, np.float64)
    arrays |= {"obs/low": known.min(axis=0), "obs/high": known.max(axis=0)}
    arrays["obs/deviation"] = known.std(axis=0)
    arrays["obs/mean"] = np.asarray(params.normalizer.mean)
    arrays["obs/scale"] = np.asarray(params.normalizer.scale)
    return arrays


def _starts(domain: Domain) -> np.ndarray:
    """Return first states of episodes [n, P]; on its feet where the domain knows how."""
    standing = domain if domain.standing is None else domain._replace(start=domain.standing)
    simulator = Simulator(standing, STARTS, 1)
    simulator.reset(np.arange(STARTS))
    return simulator.physics()


def _live(domain: Domain) -> dict[str, Any]:
    """Return where the browser reads each quantity from while the robot moves."""
    found = tracing.trace_quantities(domain)
    return {name: None if entry is None else list(entry) for name, entry in found.items()}


def _robot(domain: Domain, files: Mapping[str, str], physics: np.ndarray) -> dict[str, Any]:
    """Return how the robot is stepped and posed."""
    model, slide = domain.model(), mujoco.mjtJoint.mjJNT_SLIDE
    joints = []
    for j in range(model.njnt):
        kind, at = int(model.jnt_type[j]), int(model.jnt_qposadr[j])
        if kind == mujoco.mjtJoint.mjJNT_BALL:
            continue
        span = physics[:, at + 2 if kind == mujoco.mjtJoint.mjJNT_FREE else at]
        limited = bool(model.jnt_limited[j])
        low, high = model.jnt_range[j] if limited else (span.min(), span.max())
        name = model.joint(j).name or f"joint {j}"
        joints.append({"name": name, "type": kind, "at": at, "low": float(low),
                       "high": float(high), "root": int(model.jnt_bodyid[j]) == 1})  # fmt: skip
    low, high = model.actuator_ctrlrange.T
    return {
        "model": next(iter(files)),
        "substeps": domain.substeps,
        "observation": [list(entry) for entry in tracing.trace_observation(domain)],
        "joints": joints,
        "control": [low.tolist(), high.tolist()],
        "native": bool(np.all(low == -1) and np.all(high == 1)),
        "arena": bool((model.jnt_type == slide).all() and not model.jnt_axis[:, 2].any()),
        "planar": not bool((model.jnt_type == mujoco.mjtJoint.mjJNT_FREE).any()),
    }


def _examples(names: Sequence[str]) -> list[list[str]]:
    found = []
    for label, text in EXAMPLES:
        try:
            parse(text, names)
        except RewardTextError:
            continue
        found.append([label, text])
    return found
