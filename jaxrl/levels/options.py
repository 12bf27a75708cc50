"""What `--levels` says: a method that chooses levels, with options as in the name of an environment."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Literal

from jaxrl.config import COUNT, NOT_NEGATIVE, POSITIVE, SHARE, Allowed, CheckedConfig
from jaxrl.errors import suggestion
from jaxrl.registry import parse_options

__all__ = ["Levels", "levels_of"]

_REPLAY = ("share", "size", "score", "tries", "robust", "priority", "temperature", "staleness", "min_fill")
_OPTIONS = {
    "dr": (),
    "plr": _REPLAY,
    "accel": (*_REPLAY, "edits", "edit_share"),
    "sfl": ("share", "keep", "score", "candidates", "steps", "every"),
}
_DEFAULTS: dict[str, dict[str, Any]] = {
    # A replayed level is edited with a chance of 0.8, as in the paper, if this share of the levels is replayed.
    "accel": {"share": 0.444, "robust": True},
    "sfl": {"size": 128},
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Levels(CheckedConfig):
    """A method that chooses levels, and its options."""

    kind: Literal["plr", "accel", "sfl"] = "plr"
    """Prioritised level replay (Jiang et al. 2021a, https://arxiv.org/abs/2010.03934), robust as in Jiang et al. 2021b
    (https://arxiv.org/abs/2110.02439) with `robust`; ACCEL, which also edits levels (Parker-Holder et al. 2022,
    https://arxiv.org/abs/2203.01302); or sampling for learnability (Rutherford et al. 2024,
    https://arxiv.org/abs/2408.15099)."""
    share: float = 0.5
    """Share of the levels played that come from the pool; the others are new, or edited."""
    size: int = 4000
    """P, the levels in the pool."""
    score: Literal["auto", "learnability", "variance", "maxmc", "pvl", "l1"] = "auto"
    """How a level is judged, see `jaxrl.levels.scores`; auto is learnability where episodes are won, else variance."""
    tries: int = 0
    """Episodes on a level before it is judged and left; 0 means 4 for learnability and variance, and 1 for others."""
    robust: bool = False
    """Learn from levels of the pool only: new ones are played to be judged."""
    priority: Literal["rank", "proportional"] = "rank"
    """Whether a level's weight follows from the rank of its score, or from the score itself."""
    temperature: float = 1.0
    """T: weights are (1 / rank)^(1 / T), or score^(1 / T). Small ones leave only the best levels."""
    staleness: float = 0.3
    """Share of the draws that prefer levels not played for long."""
    min_fill: float = 0.5
    """Share of the pool that must be filled before levels are replayed."""
    edits: int = 5
    """Edits that make a new level out of one of the pool."""
    edit_share: float = 0.8
    """Share of edited levels among those that do not come from the pool."""
    candidates: int = 512
    """Random levels among which the most learnable are sought, rounded up to whole batches of `num_envs`."""
    steps: int = 1000
    """Steps for which each candidate is played, at least two of the longest episodes."""
    every: int = 50
    """Updates after which the pool is sought anew."""

    allowed: ClassVar[dict[str, Allowed]] = {
        **dict.fromkeys(("size", "edits", "candidates", "steps", "every"), COUNT),
        **dict.fromkeys(("share", "staleness", "min_fill", "edit_share"), SHARE),
        "tries": NOT_NEGATIVE,
        "temperature": POSITIVE,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind == "sfl" and self.needs_critic:
            raise ValueError(f"levels: sfl judges by outcomes, not by a critic; got score={self.score}.")
        if self.tries == 1 and not self.needs_critic:
            raise ValueError(f"levels: score={self.score} needs at least 2 tries, got 1.")

    @property
    def needs_critic(self) -> bool:
        """Whether the score is made of values."""
        return self.score in ("maxmc", "pvl", "l1")

    @property
    def episodes(self) -> int:
        """The episodes on a level before it is judged and left; sfl judges apart from training."""
        return self.tries or (1 if self.needs_critic or self.kind == "sfl" else 4)

    def batches(self, num_envs: int) -> int:
        """The batches in which the candidates are played."""
        return -(-self.candidates // num_envs) if self.kind == "sfl" else 0

    def scoring_steps(self, num_envs: int) -> int:
        """Environment steps per update, on average, that only judge candidates, rounded up."""
        return -(-self.batches(num_envs) * num_envs * self.steps // self.every)


def levels_of(text: str) -> Levels | None:
    """The method that a text such as `"plr?share=0.5&score=maxmc"` names; None for none, `""` or `"dr"`.

    Raises:
        ValueError: There is no such method, or it has no such option; the message says which there are.
    """
    kind, _, query = text.partition("?")
    if (known := _OPTIONS.get(kind or "dr")) is None:
        raise ValueError(f"levels must be one of {', '.join(_OPTIONS)}, such as plr?share=0.5; got {text!r}.")
    options = parse_options(query)
    for name in options:
        if name not in known:
            raise ValueError(f"levels={kind} has no option {name!r}. {suggestion(name, known)}")
    if not known:
        return None
    if "keep" in options:
        options["size"] = options.pop("keep")
    try:
        return Levels(**{"kind": kind, **_DEFAULTS.get(kind, {}), **options})
    except (TypeError, ValueError) as error:
        raise ValueError(f"levels={text}: {error}") from None
