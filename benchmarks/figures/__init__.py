"""The pictures of the papers that show how the methods work."""
