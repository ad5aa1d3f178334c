"""The fast path for one row given as a dict."""
