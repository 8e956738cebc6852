"""How seed runs rank a configuration and what is reported of the winner; pure functions."""
