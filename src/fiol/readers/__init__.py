"""Rows from files: one file a format, each a generator of batches in constant memory."""
