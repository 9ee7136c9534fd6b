"""How fast and how small the gate is, next to what anybody would write in ten minutes."""
