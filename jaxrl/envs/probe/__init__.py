"""Probe tasks for debugging algorithms, each of which fails for one reason: `jaxrl.make("probe/discounting")`.

Run them in this order and fix the first that fails; `env.solution` holds the right values and actions, and the discount
for which they hold.

    name                   if it is the first to fail
    constant_reward        the value loss, or its optimiser
    observation_reward     gradients do not reach the observation's encoder
    discounting            returns, advantages, discount
    action_reward          the policy's loss, the advantage's sign
    observation_action     rows of a batch are mixed up
    chain                  returns over several steps
    truncation             a cut by the clock counts as an end
    off_policy             values are those of what was done, not of what is best (value learning only)
    overestimation         values are too large where rewards are noisy (double Q-learning: less so)
    stale                  what was learned long ago is not forgotten
    action_mask            masked actions are chosen
    multi_discrete_action  the log-probability of several choices
    continuous_action      the Gaussian policy
    memory_recall          the memory, or training through it
    memory_leak            memory is not cleared at the end of an episode
    credit                 agents are mixed up
    roles                  agents that need their own parameters share them
    hidden_state           the central critic does not see the global state
    death                  dead agents are learned from
    two_step               the values of a team's members do not mix (QMIX; VDN cannot solve it)
    levers                 agents agree on something that nobody else would do (other-play does not)
    lift                   critics take mates for what they were in the buffer (a joint critic does not)
    overhear               no agent sees what another one sees (only a policy for the whole team does)
    overheard_before       the same, and nobody remembers it
    follow                 agents do not know what is done before them (only agents that decide in turn do)
"""

from jaxrl.envs.probe.base import GAMMA, Case, Probe, Solution, State, TeamProbe
from jaxrl.envs.probe.single import (
    ActionMask,
    ActionReward,
    Chain,
    ConstantReward,
    ContinuousAction,
    Discounting,
    MemoryLeak,
    MemoryRecall,
    MultiDiscreteAction,
    ObservationAction,
    ObservationReward,
    OffPolicy,
    Overestimation,
    Stale,
    Truncation,
)
from jaxrl.envs.probe.team import (
    Credit,
    Death,
    Follow,
    HiddenState,
    Levers,
    Lift,
    Overhear,
    OverheardBefore,
    Roles,
    TwoStep,
)
from jaxrl.registry import register

__all__ = ["GAMMA", "PROBES", "Case", "Probe", "Solution", "State", "TeamProbe"]

PROBES: dict[str, type[Probe] | type[TeamProbe]] = {
    "constant_reward": ConstantReward,
    "observation_reward": ObservationReward,
    "discounting": Discounting,
    "action_reward": ActionReward,
    "observation_action": ObservationAction,
    "chain": Chain,
    "truncation": Truncation,
    "off_policy": OffPolicy,
    "overestimation": Overestimation,
    "stale": Stale,
    "action_mask": ActionMask,
    "multi_discrete_action": MultiDiscreteAction,
    "continuous_action": ContinuousAction,
    "memory_recall": MemoryRecall,
    "memory_leak": MemoryLeak,
    "credit": Credit,
    "roles": Roles,
    "hidden_state": HiddenState,
    "death": Death,
    "two_step": TwoStep,
    "levers": Levers,
    "lift": Lift,
    "overhear": Overhear,
    "overheard_before": OverheardBefore,
    "follow": Follow,
}

for _name, _probe in PROBES.items():
    register(f"probe/{_name}", _probe)
