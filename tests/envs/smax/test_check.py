"""`check_env` finds nothing in any scenario and mode."""

import pytest

import jaxrl
from jaxrl.check import check_env
from jaxrl.envs.smax import SCENARIOS

MODES = [
    {"mode": "selfplay", "scenario": "5m_vs_6m"},
    {"observation_type": "conic"},
    {"action_type": "continuous"},
    {"compat": "jaxmarl-0.2", "scenario": "smacv2_5_units"},
    {"allies": "2zergling1m", "enemies": "2M", "map_size": (12, 20), "spawn": "smacv2"},
]


@pytest.mark.parametrize("options", [{}, *(pytest.param(m, marks=pytest.mark.slow) for m in MODES)], ids=str)
def test_modes(options):
    check_env(jaxrl.make("smax", **options))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SCENARIOS))
def test_scenarios(name):
    check_env(jaxrl.make(f"smax/{name}"))
