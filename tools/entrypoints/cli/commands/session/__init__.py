"""Commands that show sessions and change them."""
