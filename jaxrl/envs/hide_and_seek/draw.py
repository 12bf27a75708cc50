"""Pictures."""
def draw(env, states, params):
    raise NotImplementedError
