"""Networks: torsos, memory cores, heads and distributions, independent of environments and algorithms."""
