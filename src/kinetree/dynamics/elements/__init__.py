"""Elements: how a stretch of rows acts on accelerations and forces, and how two stretches combine."""
