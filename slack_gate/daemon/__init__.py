"""The daemon: the gate that joins everything, its doors, and what keeps it going."""
