"""Who remembers the position: operators at work, with their states."""
