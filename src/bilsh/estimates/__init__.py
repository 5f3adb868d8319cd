"""From Hamming distances and asymmetric scores back to similarities, with their certainty."""
