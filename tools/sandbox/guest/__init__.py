"""What runs around a guest's code, and the functions of the host that it calls."""
