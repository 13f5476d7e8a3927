"""What runs around a guest's code, and the host functions it calls."""
