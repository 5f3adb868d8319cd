"""Searching codes: requests, scans, pruning, asymmetric scores, results."""
