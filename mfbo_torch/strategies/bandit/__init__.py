"""Strategies over arms."""
