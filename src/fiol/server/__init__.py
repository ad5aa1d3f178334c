"""`fiol serve`: models that learn while they serve, with a journal that every acknowledged row is in."""
