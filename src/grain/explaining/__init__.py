"""What a pipeline will do, told in words: nothing is read and nothing is started for it."""
