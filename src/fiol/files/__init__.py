"""Models as files: recipes of components, and a header with arrays."""
