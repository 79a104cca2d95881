"""Two questions about an inbox of three emails, one a turn."""
