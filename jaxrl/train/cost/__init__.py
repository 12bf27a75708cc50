"""What a run costs: memory, FLOPs and time, before and while it runs."""
