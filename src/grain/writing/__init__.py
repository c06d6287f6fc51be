"""From elements to files: formats, shards, and the job of writing them."""
