"""What strategies of several families share."""
