"""What will be run: a closed set of kinds of plan, into which every operator is lowered."""
