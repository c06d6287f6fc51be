"""What is done to elements: trees of arrays, stacking, padding, packing into rows."""
