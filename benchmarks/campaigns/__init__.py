"""Campaigns: many random cases against an oracle, run in full once in a while; the tests run a few of each."""
