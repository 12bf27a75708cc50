"""The rules for the fields of configurations, one table for each layer: what values they can have, and what they need.

A layer takes its table by `allowed, effects = rules.RUN`; see `jaxrl.config.CheckedConfig`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from jaxrl.config import COUNT, LAYERS, NOT_NEGATIVE, POSITIVE, SHARE, SIZES, Allowed, Effect
from jaxrl.environment import Environment
from jaxrl.nn.encoder import is_picture
from jaxrl.nn.memory import CORES
from jaxrl.rl.optimizer import OPTIMIZERS
from jaxrl.spaces import Box
from jaxrl.wrappers import as_multi_agent

__all__ = ["NUMBERS", "Rules", "has_memory", "only_random"]

Env = Callable[[], Environment]


class Rules(NamedTuple):
    """The rules for the fields of a layer."""

    allowed: dict[str, Allowed]
    effects: tuple[Effect, ...] = ()


def _each(rule: Allowed, *fields: str) -> dict[str, Allowed]:
    return dict.fromkeys(fields, rule)


def _one_of(names: Collection[str], own: str) -> Allowed:
    """One of the library's, or the name of code of the user's own."""
    return Allowed(lambda name: name in names or ":" in name, f"be one of {', '.join(names)}, or your own, as in {own}")


def only_random(words: str) -> Allowed:
    """Random levels alone; `words` say why."""
    return Allowed(lambda text: text in ("", "dr"), words)


def has_memory(config: Any, _: Any) -> bool:
    """True if the networks have a memory."""
    return config.memory != "none"


def _has_pool(config: Any, _: Any) -> bool:
    return config.reset == "pool"


def _is_shared(_: Any, env: Env) -> bool:
    return as_multi_agent(env()).num_agents > 1


def _has_entities(config: Any, env: Env) -> bool:
    entities = env().entities
    return entities is not None and (config.torso != "relations" or bool(entities.placed))


def _without_network(field: str) -> Effect:
    """The rule that a field has no effect with a `network`, unless it is one of `beside_network`."""

    def works(config: Any, _: Any) -> bool:
        return config.network is None or field in config.beside_network

    return Effect(field, ("network",), works, "leave out network")


_MEMORY = "choose memory=gru, lstm, s5, gtrxl, retention or deltanet"
_AGENTS = "choose an environment with several agents"
_ENTITIES = "choose an environment that tells what entities it has, and for relations, where they are, such as smax/3m"

RUN = Rules(
    {
        **_each(COUNT, "total_timesteps", "num_envs", "num_steps", "num_shards"),
        "pool_refresh": SHARE,
        "pool_size": NOT_NEGATIVE,
    },
    (
        Effect("pool_size", ("reset",), _has_pool, "choose reset=pool"),
        Effect("pool_refresh", ("reset",), _has_pool, "choose reset=pool"),
    ),
)

SHARING = Rules(
    {},
    (
        Effect("sharing", ("env",), _is_shared, _AGENTS),
        Effect("policies", ("env",), _is_shared, _AGENTS),
        Effect(
            "other_play",
            ("env",),
            lambda _, env: env().symmetries is not None,
            "choose an environment with symmetries, such as hanabi/2p",
        ),
    ),
)

TEAM = Rules({}, (Effect("shared_reward", ("env",), _is_shared, _AGENTS),))

ACTOR = Rules(
    {},
    (
        Effect(
            "squash",
            ("env",),
            lambda _, env: isinstance(env().action_space(), Box),
            "choose an environment with continuous actions",
        ),
    ),
)

NETWORK = Rules(
    {
        "hidden": LAYERS,
        **_each(SIZES, "head_hidden", "channels"),
        **_each(COUNT, "memory_size", "memory_window"),
        "memory": _one_of(CORES, "./my_cell.py:Cell"),
    },
    (
        Effect("memory_size", ("memory",), has_memory, _MEMORY),
        Effect("memory_window", ("memory",), lambda config, _: config.memory == "gtrxl", "choose memory=gtrxl"),
        Effect("torso", ("env",), _has_entities, _ENTITIES),
        Effect(
            "channels",
            ("env",),
            lambda _, env: is_picture(env().observation_space()),
            "choose an environment with pictures",
        ),
        *map(_without_network, ("torso", "channels", "hidden", "layer_norm", "activation")),
    ),
)

HYPERPARAMS = Rules({"lr": POSITIVE, "gamma": SHARE})

LEARNING = Rules(
    {
        "optimizer": _one_of(OPTIMIZERS, "./my_optimizer.py:lion"),
        "max_grad_norm": POSITIVE,
        **_each(NOT_NEGATIVE, "weight_decay", "sequence_length"),
    },
    (
        Effect("sequence_length", ("memory",), has_memory, _MEMORY),
        Effect("weight_decay", ("optimizer",), lambda c, _: c.optimizer in OPTIMIZERS, "let your optimizer decay them"),
    ),
)

BINS = Rules(
    {"value_range": Allowed(lambda ends: ends[0] < ends[1], "have its lower end first")},
    (
        Effect(
            "value_range", ("value_loss",), lambda c, _: c.value_loss in ("hlgauss", "c51"), "choose value_loss=hlgauss"
        ),
    ),
)

EPOCHS = Rules(_each(COUNT, "update_epochs", "num_minibatches"))

ON_POLICY = Rules(
    {
        "target_kl": POSITIVE,
        "critic_hidden": SIZES,
        "gae_lambda": SHARE,
        **_each(NOT_NEGATIVE, "clip_eps", "ent_coef", "vf_coef"),
    },
    (
        Effect("critic_hidden", ("share_torso",), lambda c, _: not c.share_torso, "choose share_torso=False"),
        _without_network("critic_hidden"),
        Effect("clip_value", ("value_loss",), lambda c, _: c.value_loss == "mse", "choose value_loss=mse"),
        Effect("anneal_ent", ("schedules",), lambda c, _: "ent_coef" not in c.scheduled, "leave ent_coef out of them"),
        Effect(  # until the first gradient step, the policy is the one that acted
            "target_kl",
            ("update_epochs", "num_minibatches"),
            lambda c, _: c.gradients_per_update > 1,
            "raise one of them",
        ),
    ),
)

POLICIES = Rules(
    {},
    (
        Effect(
            "policy_hyperparams",
            ("policies", "env"),
            lambda config, env: bool(config.policies) and _is_shared(config, env),
            'name policies that learn, such as policies="agent_.*=A"',
        ),
    ),
)

EXPLORATION = Rules(_each(SHARE, "eps_start", "eps_finish", "eps_decay"))

REPLAY = Rules(
    {
        **_each(COUNT, "buffer_size", "batch_size", "gradient_steps", "target_update_interval", "n_step"),
        **_each(NOT_NEGATIVE, "learning_starts", "burn_in"),
        **_each(SHARE, "tau", "prior_share"),
    },
    (
        Effect("burn_in", ("memory",), has_memory, _MEMORY),
        Effect("prior_share", ("prior_data",), lambda c, _: bool(c.prior_data), "name a folder in prior_data"),
    ),
)

REPLAY_Q = Rules(
    {"priority_exponent": NOT_NEGATIVE, "priority_correction": SHARE},
    (
        Effect("priority_correction", ("priority_exponent",), lambda c, _: c.by_priority, "use priority_exponent=0.6"),
        Effect("priority_exponent", ("prior_data",), lambda c, _: not c.prior_data, "train without prior_data"),
    ),
)

Q_ROLLOUTS = Rules({"q_lambda": SHARE})

NUMBERS = Allowed(
    lambda loss: loss != "hlgauss",
    "be mse or huber, because a team's value is made of its members' numbers, not of distributions; dqn and iql have "
    "hlgauss",
)
"""The losses of a team's value, which is made of its members' values."""

BOX = Rules(
    {
        **_each(COUNT, "num_critics", "policy_delay"),
        "critic_hidden": SIZES,
        "memory": Allowed(
            lambda memory: memory == "none", "be none: actor and critics see single steps; dqn has a memory"
        ),
    },
    (
        Effect(
            "central_critic",
            ("env",),
            lambda _, env: as_multi_agent(env()).has_global_state,
            "choose an environment with a global state",
        ),
        Effect("central_critic", ("joint_critic",), lambda c, _: not c.joint_critic, "leave out joint_critic"),
        Effect("joint_critic", ("env",), _is_shared, _AGENTS),
        Effect("pessimism", ("num_critics",), lambda c, _: c.num_critics > 1, "choose num_critics=2"),
    ),
)

STREAM = Rules(
    {
        "num_envs": Allowed(
            lambda number: number == 1,
            "be 1, because a learner has one stream of experience (--num-seeds trains many learners side by side)",
        ),
        "memory": Allowed(lambda memory: memory == "none", "be none, because a stream is learned from step by step"),
        "levels": only_random("be dr: a stream has one environment; ppo and dqn have levels"),
        **_each(SHARE, "trace_lambda", "sparsity"),
    },
    (Effect("num_shards", ("num_envs",), lambda *_: False, "train several seeds, which several devices can share"),),
)
