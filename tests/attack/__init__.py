"""Attacks on a gate, each as a test that fails while the attack works."""
