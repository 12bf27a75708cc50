"""Every registered environment keeps the contract."""

import pytest

import jaxrl

# Of families with many alike and large environments, these stand for all in the fast suite.
REPRESENTATIVES = {
    "smax": {"smax/3m"},
    "classic": {"classic/cartpole", "classic/pendulum"},
    "mpe": set(),  # tests/envs/mpe/test_env.py checks one
    "storm": set(),
    "overcooked": {"overcooked/coord_ring"},
    "overcooked_v2": set(),
    "memory": {"memory/autoencode", "memory/noisy_position_only_pendulum"},
    "minatar": {"minatar/breakout"},
    "hanabi": set(),
    "hide_and_seek": set(),
    "jaxnav": set(),
    "maze": {"maze/9"},
    "quadrotor": set(),
    "probe": {
        *("probe/action_mask", "probe/multi_discrete_action", "probe/continuous_action"),
        *("probe/memory_leak", "probe/death"),
    },
}


def marked(name: str):
    family = name.partition("/")[0]
    slow = name not in REPRESENTATIVES.get(family, {name})
    return pytest.param(name, marks=pytest.mark.slow if slow else ())


@pytest.mark.parametrize("name", [marked(name) for name in jaxrl.list_envs()])
def test_keeps_the_contract(name):
    jaxrl.check_env(jaxrl.make(name))
