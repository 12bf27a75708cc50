"""Classic control, equal to Gymnasium's: `jaxrl.make("classic/cartpole")`, or by its id there, `"CartPole-v1"`."""

from jaxrl.envs.classic.acrobot import Acrobot
from jaxrl.envs.classic.cartpole import CartPole
from jaxrl.envs.classic.mountain_car import MountainCar, MountainCarContinuous
from jaxrl.envs.classic.pendulum import Pendulum
from jaxrl.registry import register

__all__ = ["Acrobot", "CartPole", "MountainCar", "MountainCarContinuous", "Pendulum"]

register("classic/cartpole", CartPole, aliases=("CartPole-v1",))
register("classic/acrobot", Acrobot, aliases=("Acrobot-v1",))
register("classic/mountain_car", MountainCar, aliases=("MountainCar-v0",))
register("classic/mountain_car_continuous", MountainCarContinuous, aliases=("MountainCarContinuous-v0",))
register("classic/pendulum", Pendulum, aliases=("Pendulum-v1",))
