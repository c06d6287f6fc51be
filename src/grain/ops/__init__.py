"""What each operator means: a node, how it is lowered to a plan or run on a stream. One file for each family."""
