"""The pictures of a run: curve and replays."""
