"""Compiled rounds of one learner: learning, reading, and one exact step."""
