"""The environment families. Importing this registers all of them with `jaxrl.make`."""

import jaxrl.envs.classic
import jaxrl.envs.hide_and_seek
import jaxrl.envs.minatar
import jaxrl.envs.mpe
import jaxrl.envs.probe
import jaxrl.envs.smax  # noqa: F401
