"""Plans that run in worker processes: starting them, talking to them, sharing memory with them."""
