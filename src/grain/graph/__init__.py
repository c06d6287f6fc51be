"""What was asked for: immutable nodes, and what can be learnt from them without reading data."""
