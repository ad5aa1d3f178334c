"""One update with three switches, and how it becomes a plan: which state it keeps, how absent features wait."""
