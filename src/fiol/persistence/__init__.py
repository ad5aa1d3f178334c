"""Models as files: recipes of components, records of features, a header with arrays, and the door to them."""
