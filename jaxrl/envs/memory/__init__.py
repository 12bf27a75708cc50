"""Tasks for memory, equal to POPGym's (Morad et al. 2023, https://arxiv.org/abs/2303.01859).

`jaxrl.make("memory/repeat_previous")`, or by its id there, `"popgym-RepeatPreviousEasy-v0"`. Each task also comes with
`_medium` and `_hard` after its name.
"""

from typing import Any

from jaxrl.envs.memory.bandit import MultiarmedBandit
from jaxrl.envs.memory.boards import Battleship, Concentration, MineSweeper
from jaxrl.envs.memory.card_games import Autoencode, CountRecall, HigherLower, RepeatFirst, RepeatPrevious
from jaxrl.envs.memory.control import PartialCartPole, PartialPendulum
from jaxrl.registry import register

__all__ = [
    "Autoencode",
    "Battleship",
    "Concentration",
    "CountRecall",
    "HigherLower",
    "MineSweeper",
    "MultiarmedBandit",
    "PartialCartPole",
    "PartialPendulum",
    "RepeatFirst",
    "RepeatPrevious",
]

_DECKS = ({}, {"num_decks": 2}, {"num_decks": 3})
_LENGTHS = ({}, {"max_steps": 400}, {"max_steps": 600})
_NOISE = ({"noise": 0.1}, {"noise": 0.2}, {"noise": 0.3})
# By their names in POPGym: the name here, the class, and its options in the easy, the medium and the hard version.
_TASKS: dict[str, tuple[str, Any, tuple[dict[str, Any], ...]]] = {
    "Autoencode": ("autoencode", Autoencode, _DECKS),
    "Battleship": ("battleship", Battleship, ({}, {"size": 10}, {"size": 12})),
    "Concentration": ("concentration", Concentration, ({}, {"num_decks": 2}, {"kinds": "ranks"})),
    "CountRecall": (
        "count_recall",
        CountRecall,
        ({}, {"num_decks": 2, "kinds": "suits"}, {"num_decks": 4, "kinds": "ranks"}),
    ),
    "HigherLower": ("higher_lower", HigherLower, _DECKS),
    "MineSweeper": (
        "minesweeper",
        MineSweeper,
        ({}, {"size": 6, "num_mines": 6}, {"size": 8, "num_mines": 10}),
    ),
    "MultiarmedBandit": (
        "multiarmed_bandit",
        MultiarmedBandit,
        ({}, {"num_arms": 20, "max_steps": 400}, {"num_arms": 30, "max_steps": 600}),
    ),
    "NoisyPositionOnlyCartPole": ("noisy_position_only_cartpole", PartialCartPole, _NOISE),
    "NoisyPositionOnlyPendulum": ("noisy_position_only_pendulum", PartialPendulum, _NOISE),
    "PositionOnlyCartPole": ("position_only_cartpole", PartialCartPole, _LENGTHS),
    "PositionOnlyPendulum": (
        "position_only_pendulum",
        PartialPendulum,
        ({}, {"max_steps": 150}, {"max_steps": 100}),
    ),
    "RepeatFirst": ("repeat_first", RepeatFirst, ({}, {"num_decks": 8}, {"num_decks": 16})),
    "RepeatPrevious": (
        "repeat_previous",
        RepeatPrevious,
        ({}, {"num_decks": 2, "lag": 32}, {"num_decks": 3, "lag": 64}),
    ),
    "VelocityOnlyCartpole": (
        "velocity_only_cartpole",
        PartialCartPole,
        tuple({"observe": "velocity", **options} for options in _LENGTHS),
    ),
}
for _popgym, (_name, _factory, _versions) in _TASKS.items():
    for _suffix, _level, _options in zip(("", "_medium", "_hard"), ("Easy", "Medium", "Hard"), _versions, strict=True):
        register(f"memory/{_name}{_suffix}", _factory, aliases=(f"popgym-{_popgym}{_level}-v0",), options=_options)
