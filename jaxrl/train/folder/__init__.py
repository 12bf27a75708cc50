"""The run folder: what a run writes, and how it is read, continued and trusted."""
