"""Hide-and-seek: hiders hide, seekers look for them, and both may move what lies around."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.entities import Entities
from jaxrl.environment import MultiAgentEnvironment, Step
from jaxrl.envs.batching import batch_first, batch_last, same_key
from jaxrl.envs.hide_and_seek import observe, rules
from jaxrl.envs.hide_and_seek.draw import draw
from jaxrl.envs.hide_and_seek.geometry import fixed
from jaxrl.envs.hide_and_seek.layouts import LAYOUTS, start
from jaxrl.envs.hide_and_seek.observe import lidar, sight
from jaxrl.envs.hide_and_seek.physics import SUBSTEPS, Orders, Surroundings, substep
from jaxrl.envs.hide_and_seek.world import Cast, Params, State, default_params
from jaxrl.envs.options import one_of, whole
from jaxrl.render.scene import Scene
from jaxrl.spaces import Box, MultiDiscrete

__all__ = ["HideAndSeek"]

_LIDAR = jax.jit(lidar, static_argnums=3)


class HideAndSeek(MultiAgentEnvironment):
    """Hiders are rewarded while no seeker sees any of them, seekers while one does.

    Args:
        scenario: `"chase"`, `"room"`, `"quadrant"` or `"random_walls"`.
        num_hiders: Hiders. This and the next six are by default the scenario's own, see `LAYOUTS`.
        num_seekers: Seekers.
        num_boxes: Boxes that can be moved and locked.
        num_long_boxes: Long boxes likewise.
        num_ramps: Ramps likewise, which agents can climb to get over walls.
        max_steps: Steps after which an episode is truncated; it never ends otherwise.
        preparation: Steps at the beginning in which seekers cannot move and nobody is rewarded.
        num_buckets: The number of strengths of a push and a turn, odd: the middle one is none.
        num_rays: Rays of the lidar.

    Raises:
        ValueError: An option is out of its range.
    """

    intended = ("unused_params",)  # all scenarios have the same constants, and not all have ramps, doors or objects

    def __init__(
        self,
        scenario: str = "quadrant",
        *,
        num_hiders: int | None = None,
        num_seekers: int | None = None,
        num_boxes: int | None = None,
        num_long_boxes: int | None = None,
        num_ramps: int | None = None,
        max_steps: int | None = None,
        preparation: int | None = None,
        num_buckets: int = 11,
        num_rays: int = 30,
    ) -> None:
        self.layout = LAYOUTS[one_of("scenario", scenario, tuple(LAYOUTS))]
        own = self.layout.defaults
        self.cast = Cast(
            whole("num_hiders", own.num_hiders if num_hiders is None else num_hiders),
            whole("num_seekers", own.num_seekers if num_seekers is None else num_seekers),
            whole("num_boxes", own.num_boxes if num_boxes is None else num_boxes, 0),
            whole("num_long_boxes", own.num_long_boxes if num_long_boxes is None else num_long_boxes, 0),
            whole("num_ramps", own.num_ramps if num_ramps is None else num_ramps, 0),
        )
        steps = whole("max_steps", self.layout.max_steps if max_steps is None else max_steps)
        ready = whole("preparation", self.layout.preparation if preparation is None else preparation, 0)
        if ready >= steps:
            raise ValueError(f"preparation must be less than max_steps={steps}, got {ready}.")
        self.num_rays = whole("num_rays", num_rays, 0)
        self.num_buckets = whole("num_buckets", num_buckets, 3)
        if self.num_buckets % 2 == 0:
            raise ValueError(f"num_buckets must be odd, so that there is a middle one, got {num_buckets}.")
        hiders, seekers = self.cast.num_hiders, self.cast.num_seekers
        self.agents = tuple(f"hider_{i}" for i in range(hiders)) + tuple(f"seeker_{i}" for i in range(seekers))
        self._default_params = default_params(self.cast, steps, ready)

    @property
    def default_params(self) -> Params:
        return self._default_params

    @property
    def teams(self) -> tuple[int, ...]:
        return self.cast.teams

    def observation_space(self, params: Params | None = None) -> Box:
        return Box(-np.inf, np.inf, (observe.observation_size(self.cast, self.num_rays),))

    @property
    def entities(self) -> Entities:
        return observe.entities(self.cast, self.num_rays)

    @property
    def state_entities(self) -> Entities:
        draws = jax.ShapeDtypeStruct((self.layout.num_draws,), np.float32)
        walls, doors = jax.eval_shape(lambda draws: self.layout.plan(draws, self._default_params)[:2], draws)
        return observe.state_entities(self.cast, len(walls), len(doors))

    def action_space(self, params: Params | None = None) -> MultiDiscrete:
        """Push along x, push along y, turn; with objects, also grab and lock, each yes (1) or no."""
        hands_of_agent = (2, 2) if self.cast.num_objects else ()
        return MultiDiscrete((self.num_buckets,) * 3 + hands_of_agent)

    # One environment uses the kernel without a batch axis; B of them have that axis last inside, first outside. What
    # subclasses write for one environment does not get that axis.

    def reset_env(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        state = fixed(self._start(key, params))
        return self._observe(state, params), state

    def step_env(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Step:
        state, *outcome = self._advance(state, self.action_space().clip(action), params)
        return self._observe(state, params), state, *outcome  # pyright: ignore[reportReturnType]

    split_key = same_key  # only starts draw from it

    def batch_reset(
        self, keys: jax.Array, params: Params | None = None, *, own_params: bool = False
    ) -> tuple[jax.Array, State]:
        return batch_first(HideAndSeek.reset_env(self, keys, self._kernel_params(params, own_params)))

    def batch_step_env(
        self, keys: jax.Array, state: State, action: jax.Array, params: Params, *, own_params: bool = False
    ) -> Step:
        params = self._kernel_params(params, own_params)
        action = batch_last(self.action_space().clip(action))
        state, *outcome = self._advance(batch_last(state), action, params)
        return batch_first((self._observe(state, params), state, *outcome))

    def batch_step(
        self,
        keys: jax.Array,
        state: State,
        action: jax.Array,
        params: Params | None = None,
        reset_to: tuple[jax.Array, State] | None = None,
        *,
        own_params: bool = False,
    ) -> Step:
        if reset_to is not None:
            return super().batch_step(keys, state, action, params, reset_to, own_params=own_params)
        params = self._kernel_params(params, own_params)
        action = batch_last(self.action_space().clip(action))
        final, reward, terminated, truncated, info = self._advance(batch_last(state), action, params)
        # Choosing the state first leaves one observation to build, unless the caller also uses the final one.
        fresh = self._start(self.split_key(keys)[1], params)
        state = fixed(jax.tree.map(lambda new, old: jnp.where(truncated, new, old), fresh, final))
        info = {**info, "final_observation": self._observe(final, params), "final_state": final}
        return batch_first((self._observe(state, params), state, reward, terminated, truncated, info))

    def _kernel_params(self, params: Params | None, own_params: bool) -> Params:
        """The parameters in the kernel's layout: leaves with the batch axis last, of size 1 if they are shared."""
        params = self._params(params)
        if own_params:
            return batch_last(params)
        return jax.tree.map(lambda leaf: leaf[..., None] if np.ndim(leaf) else leaf, params)

    def draw(self, states: State, params: Params | None = None) -> Scene:
        return draw(self, states, self._params(params))

    def rays(self, states: State, num_rays: int, params: Params) -> np.ndarray:
        """For pictures: how far rays in all directions get, in metres, `[F, A, R]`, from NumPy leaves `[F, …]`."""
        params, states = self._kernel_params(params, own_params=False), batch_last(states)
        rects, walls = observe.objects_of(states).rect(params), observe.walls_of(states)
        shares = _LIDAR(observe.agents_of(states), rects, walls, num_rays, params)
        return np.moveaxis(np.asarray(shares, np.float64), -1, 0) * float(params.lidar_range)

    # Pure functions of the state.

    def observation(self, state: State, params: Params | None = None) -> jax.Array:
        return self._observe(state, self._params(params))

    def batch_observation(self, state: State, params: Params | None = None, *, own_params: bool = False) -> jax.Array:
        return batch_first(self._observe(batch_last(state), self._kernel_params(params, own_params)))

    def agent_mask(self, state: State, params: Params | None = None) -> jax.Array:
        """Bool `[N]`: seekers do not act in the preparation."""
        return rules.acting(state.step, self.cast, self._params(params))

    def global_state(self, state: State, params: Params | None = None) -> jax.Array:
        return observe.global_state(state, self._params(params))

    # What happens in a step.

    def _start(self, key: jax.Array, params: Params) -> State:
        state = start(key, self.layout, self.cast, params)
        return dataclasses.replace(state, sight=self._sight(state, params))

    def _sight(self, state: State, params: Params) -> jax.Array:
        rects = observe.objects_of(state).rect(params)
        return sight(observe.agents_of(state), rects, observe.walls_of(state), params)

    def _observe(self, state: State, params: Params) -> jax.Array:
        return observe.observation(state, self.cast, self.num_rays, params)

    def _advance(
        self, state: State, action: jax.Array, params: Params
    ) -> tuple[State, jax.Array, jax.Array, jax.Array, dict[str, jax.Array]]:
        """The world one step later: `(state, reward, terminated, truncated, info)`, for `action[A, K, …]`."""
        before = state
        acting = rules.acting(state.step, self.cast, params)
        agents, objects = observe.agents_of(state), observe.objects_of(state)
        holds = jnp.zeros((self.num_agents, 0, *state.step.shape), bool)
        if self.cast.num_objects:
            state, holds = rules.use(state, agents, objects, action[:, 3:] > 0, acting, self.cast, params)
        middle = self.num_buckets // 2
        push = jnp.where(acting[:, None], (action[:, :3] - middle) / np.float32(middle), 0.0)
        force, turn = params.force, params.turn_force
        orders = Orders(push[:, 0] * force, push[:, 1] * force, push[:, 2] * turn, holds, state.grip)
        walls = observe.walls_of(state)
        low, high = params.border, params.floor - params.border
        around = Surroundings(walls, self.cast.is_ramp, state.locked_by >= 0, low, high)
        agents, objects = jax.lax.fori_loop(
            0, SUBSTEPS, lambda _, bodies: substep(bodies[0], bodies[1], orders, around, params), (agents, objects)
        )
        state = rules.moved(state, agents, objects, params)
        if self.cast.num_objects:
            state = rules.let_go(state, agents, objects, holds, params)
        state = fixed(dataclasses.replace(state, sight=self._sight(state, params), step=state.step + 1))
        state = rules.counted(before, state, self.cast, params)
        truncated = state.step >= params.max_steps
        reward = rules.reward(state, before.step, self.cast, params)
        return state, reward, jnp.zeros_like(truncated), truncated, rules.info(state, params)
