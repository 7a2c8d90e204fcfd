"""How long things take: operations, decisions, workers, doors of other packages."""
