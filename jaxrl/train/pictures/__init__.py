"""The pictures that a run leaves: curve and replays."""
