"""Every field of a run once: its default (paper scale), unit and source; one section per stage.

A field that is added later gets the default that earlier runs had without knowing it (or a line in
BEFORE): their folders then load, and go on, as if they had always had it.
"""

from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from zsrl_jax.encoders import ENCODERS

# What runs did before a field existed, if that is not its default.
BEFORE: dict[str, Any] = {
    "infer.intercept": False,
    "data.collect.explorer": "train",
    "data.collect.horizon": 1,
    "data.collect.held": 0.0,
    "tasks.moves": 0,
}
ABSENT = ("encoder", "tasks", "infer")  # sections that an oracle does not have


def explorer_fields() -> ConfigDict:
    """Return the fields of the exploring agent: the public URLB recipe (Laskin et al., 2021)."""
    return ConfigDict(
        {
            "explorer": "shipped",  # shipped: play the packaged explorers; train: one from nothing
            "num_envs": 16,  # environments stepped together
            "width": 1024,
            "rnd_dim": 512,  # outputs of the random network
            "rnd_width": 1024,
            "batch": 1024,
            "learning_rate": 1e-4,
            "target_rate": 0.01,
            "discount": 0.99,
            "horizon": 3,  # steps before a target bootstraps
            "noise": 0.2,
            "noise_clip": 0.3,
            "random_steps": 4000,  # transitions by uniform actions before the agent acts
            "steps_per_update": 2.0,  # transitions collected for each update
            "held": 0.3,  # share of steps in which a random action is held (quadruped; URLB: 0)
            "standing": 0.0,  # share of episodes that start on the feet (quadruped)
        }
    )


def get_config(domain: str, encoder: str, sampler: str) -> ConfigDict:
    """Return the paper-scale config of one cell."""
    config = ConfigDict()
    config.domain = domain
    config.scale = "paper"  # set by the config's argument, which decides many fields
    config.scale_reason = ""
    config.preset = ""  # the named settings that the run was made with, such as fb_tuned
    config.seed = 0  # first seed
    config.seeds = 5  # trained in one program (paper: 5)
    config.log_every = 1000  # updates between two lines of metrics
    config.checkpoint_every = 50_000  # updates between two saves of a stage

    config.precision = "float32"  # of networks' products in updates; or tf32, bfloat16
    config.devices = ConfigDict()
    config.devices.seed = 0  # devices that share the seeds; 0: as many as divide them
    config.devices.data = 1  # devices that share each seed's batch

    config.data = ConfigDict()
    config.data.source = "auto"  # auto: the data at path, else collect; or exorl, collect
    config.data.path = ""  # a folder or file of any format; empty: the variable ZSRL_DATA
    config.data.format = "auto"  # auto: by content; or exorl, ogbench, minari, d4rl, store
    config.data.algo = "rnd"  # collecting algorithm in an ExORL tree
    config.data.max_episodes = 5000  # 0: all (paper: a buffer of 5e6 transitions)
    config.data.every_nth = 1  # take every nth episode of the source, before max_episodes
    config.data.subset_seed = -1  # of a random subset of max_episodes; -1: the first ones
    config.data.on_bad = "error"  # a damaged episode: error, or skip (counted and listed)
    config.data.store = ""  # folder for packed stores; empty: beside the data, else the cache
    config.data.device_gib = 0.0  # larger stores stay on the host; 0: half the device's memory
    config.data.feed_updates = 50  # updates sent at once from a store on the host
    config.data.normalize = "none"  # none (the public code) or standard (mean and deviation)
    config.data.clip = 10.0  # of standardised observations, in deviations
    config.data.episodes = 5000  # to collect if no dataset is given (the paper's buffer)
    config.data.seed = 0  # of the collection
    config.data.cache = "runs/data"  # where collections are kept and found again
    config.data.collect = explorer_fields()

    config.encoder = ConfigDict()
    config.encoder.name = encoder
    config.encoder.dim = 50  # d (paper)
    config.encoder.radius = "sqrt_d"  # of phi and z: sqrt_d (usual in the field) or unit (paper)
    config.encoder.hidden = (256, 256, 256)  # of phi (paper)
    config.encoder.updates = 100_000  # (paper; fb has its own)
    config.encoder.batch = 1024  # transitions (paper)
    config.encoder.learning_rate = 1e-4  # Adam (paper)
    config.encoder.target_rate = 0.01  # (paper)
    config.encoder.discount = 0.99  # (paper)
    config.encoder.orthonormality = 1.0  # weight (paper; public code has 0 for aenc, trans, byol)
    if encoder in ENCODERS:
        config.encoder.update(ENCODERS[encoder].default_config())

    config.tasks = ConfigDict()
    config.tasks.sampler = sampler
    config.tasks.radius = config.encoder.get_ref("radius")
    config.tasks.discount = 0.99  # of feature occupancies (paper)
    config.tasks.num_subtrajectories = 10_000  # N_tau (paper)
    config.tasks.center = False  # take the mean behaviour out of the tasks (a departure)
    config.tasks.behaviours = 0  # best pieces whose mean replaces each task; 0: its own (paper)
    config.tasks.min_length = 1  # steps of the shortest sub-trajectory
    config.tasks.max_length = 0  # steps of the longest sub-trajectory; 0: the episode's (paper)
    config.tasks.alpha = 0.5  # of mix: share of uniform tasks, from 0 (btd) to 1 (uniform)
    config.tasks.num_components = 20  # K (paper)
    config.tasks.num_iters = 100  # of EM at most
    config.tasks.moves = 10  # rounds of splits and merges at most; 0: plain seeds and EM alone
    config.tasks.tolerance = 1e-3  # change of log-likelihood per sample at which EM stops

    config.policy = ConfigDict()
    config.policy.kind = "td3"  # td3 on phi (paper); own: the actor that fb trains, one stage
    config.policy.updates = 1_000_000  # (paper)
    config.policy.num_tasks = 32  # task vectors per update (paper)
    config.policy.per_task = 64  # transitions per task vector (paper)
    config.policy.width = 1024  # of streams and heads; half of it where streams join
    config.policy.learning_rate = 1e-4  # Adam, actor and critic (paper)
    config.policy.target_rate = 0.01  # (paper)
    config.policy.discount = 0.99  # (paper)
    config.policy.noise = 0.2  # of the next action (paper)
    config.policy.noise_clip = 0.3  # (paper)
    config.policy.policy_delay = 1  # critic updates per actor update (usual in the field; TD3: 2)
    config.policy.head = "successor"  # successor: Q = psi.z; scalar: plain twin Q
    config.policy.head_norm = False  # LayerNorm in the critic's heads (a departure, laptop scale)
    config.policy.way_back = False  # no damping of gradients that lead actions inwards (departure)
    config.policy.candidates = 0  # corners that the critic chooses among; 0: none (paper)
    config.policy.ensemble = 1  # learners whose critics decide together; 1: no ensemble (paper)
    config.policy.behaviour = 0.0  # weight of |pi - a|^2 (a departure, laptop scale)
    config.policy.successor = 0.0  # weight of the loss on psi itself (a departure, laptop scale)
    config.policy.actor_average = 0.0  # rate of the averaged actor; 0: act with the last one
    config.policy.anneal = False  # learning rate linearly to 0 (a departure, laptop scale)
    config.policy.horizon = 1  # steps of data before a target bootstraps (a departure above 1)
    config.policy.pessimism = 1.0  # 1: the smaller critic (paper); 0: the mean (a departure)
    config.policy.center_reward = True  # subtract the mean feature (a departure; false: the paper)
    config.policy.feature_gib = 6.0  # features of all seeds are stored if they fit into this

    config.infer = ConfigDict(type_safe=False)  # ridge is a word or a number
    config.infer.num_states = 5120  # labelled states (the field)
    config.infer.seed = 0  # of the states drawn, the same for every training seed
    config.infer.intercept = True  # of the regression, where rewards are centred; false: the paper
    config.infer.behaviours = 0  # best behaviours of the data whose mean answers a prompt; 0: z
    config.infer.nearest = 0  # mean of so many near task vectors replaces z; 0: z (paper)
    config.infer.ridge = "auto"  # auto: cross-validated; a number: relative strength; 0: the paper

    config.evaluate = ConfigDict()
    config.evaluate.episodes = 10  # per task and seed (paper)
    config.evaluate.seed = 0  # of the initial states, the same for every training seed
    config.evaluate.every = 0  # updates between scores during training; 0: only at the end
    config.evaluate.beside = "auto"  # those scores in a thread: auto (accelerator), always, never
    return config


def defaults_of(config: ConfigDict | Mapping[str, Any]) -> ConfigDict:
    """Return what runs of this domain, encoder and sampler have for fields they do not name."""
    encoder, tasks = config.get("encoder", {}), config.get("tasks", {})
    found = get_config(config["domain"], encoder.get("name", "fb"), tasks.get("sampler", "btd"))
    found.update_from_flattened_dict(BEFORE)
    return found


def with_defaults(stored: Mapping[str, Any]) -> ConfigDict:
    """Return a config read from disk, with the default of every field it does not have yet.

    Sections that it lacks are not added (an oracle has no encoder, tasks or infer).
    """
    config = ConfigDict(stored)
    for name, default in defaults_of(stored).items():
        if name in config and isinstance(default, ConfigDict):
            _fill(config[name], default)
        elif name not in config and name not in ABSENT:
            config[name] = default
    return config.lock()


def _fill(section: ConfigDict, default: ConfigDict) -> None:
    for name, value in default.items():
        if name not in section:
            section[name] = value
        elif isinstance(value, ConfigDict):
            _fill(section[name], value)
