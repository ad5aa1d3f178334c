"""Model files: components as JSON, records of features, header and arrays, and functions to read and write them."""
