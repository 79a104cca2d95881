"""Number line, EZ points, 24 points and blackjack, as text or as pictures."""
