"""What carries out approved commands; each file is one executor (`core/ports.py`, `Executor`)."""
