"""The functions of preview1 that the guest imports: decoded, answered, encoded."""
