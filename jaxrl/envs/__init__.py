"""The environment families. Importing this registers all of them with `jaxrl.make`."""

import jaxrl.envs.classic
import jaxrl.envs.hanabi
import jaxrl.envs.hide_and_seek
import jaxrl.envs.jaxnav
import jaxrl.envs.matrix
import jaxrl.envs.maze
import jaxrl.envs.memory
import jaxrl.envs.minatar
import jaxrl.envs.mpe
import jaxrl.envs.overcooked
import jaxrl.envs.overcooked_v2
import jaxrl.envs.probe
import jaxrl.envs.quadrotor
import jaxrl.envs.smax
import jaxrl.envs.social  # noqa: F401
