"""Models of several learners, and several passes over the same rows."""
