"""What users call: datasets, iterators, DataLoader. A docstring, a doctest and a line or two of code each."""
