"""Pure rules of the gate: no clock, no event loop, no network, no SQL."""
