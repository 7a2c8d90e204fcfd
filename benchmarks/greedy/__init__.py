"""How long selecting a batch from a finite set takes."""
