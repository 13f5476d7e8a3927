"""Commands that look at sessions and change them."""
