"""The compiled rounds, and the state they work on."""
