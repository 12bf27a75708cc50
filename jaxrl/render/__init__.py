"""Pictures: frames, GIFs and self-contained HTML replays."""
