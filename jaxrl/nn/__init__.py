"""Networks: torsos, memory cores, heads and distributions. Knows no environment and no algorithm."""
