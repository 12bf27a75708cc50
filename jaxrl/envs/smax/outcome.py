"""What a step of a battle is worth, and whether it decides the battle."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxrl.envs.smax.battle import Battle
from jaxrl.envs.smax.dynamics import Bodies
from jaxrl.envs.smax.options import Options
from jaxrl.envs.smax.state import Params
from jaxrl.envs.smax.units import UnitStats

__all__ = ["outcome"]


def outcome(
    battle: Battle, options: Options, before: Bodies, after: Bodies, stats: UnitStats, step: jax.Array, params: Params
) -> tuple[jax.Array, jax.Array, jax.Array, dict[str, jax.Array]]:
    """`(reward[N, …], terminated, truncated, info)` of a step; `step` already includes it."""
    selfplay = options.mode == "selfplay"
    allies, enemies = slice(None, battle.num_allies), slice(battle.num_allies, None)
    dead = after.health <= 0
    allies_dead, enemies_dead = dead[allies].all(0), dead[enemies].all(0)
    won, lost = enemies_dead & ~allies_dead, allies_dead & ~enemies_dead
    hurt = (before.health - after.health) / stats.health
    dealt, taken = hurt[enemies].mean(0), hurt[allies].mean(0)
    gain = dealt * params.damage_reward + jnp.where(won, params.won_battle_bonus, 0.0)
    reward = jnp.broadcast_to(gain - taken * params.damage_cost, (battle.num_allies, *gain.shape))
    if selfplay:
        loss = taken * params.damage_reward + jnp.where(lost, params.won_battle_bonus, 0.0)
        theirs = loss - params.own_losses * gain - dealt * params.damage_cost
        theirs = jnp.broadcast_to(theirs, (battle.num_enemies, *gain.shape))
        reward = jnp.concatenate([reward - params.own_losses * loss, theirs])
    decided = allies_dead | enemies_dead
    if options.jaxmarl:  # one more step, and the clock ends an episode as if it were decided
        return reward, decided | (step > params.max_steps), jnp.zeros_like(decided), {"won": won}
    return reward, decided, (step >= params.max_steps) & ~decided, {"won": won}
