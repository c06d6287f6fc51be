"""Plans that run in this process: inline and on threads."""
