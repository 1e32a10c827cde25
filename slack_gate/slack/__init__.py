"""Slack: the listeners of the buttons, the cards, and the calls that draw them."""
