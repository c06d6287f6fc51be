"""Where a plan is run. Each back end is a file with a `Reader`; `reading` chooses among them."""
