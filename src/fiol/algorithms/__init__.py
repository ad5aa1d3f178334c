"""One update with three switches, and the plan it becomes: the state it keeps, the lazy updates of absent features."""
