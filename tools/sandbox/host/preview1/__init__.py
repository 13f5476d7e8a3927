"""The preview1 functions that the guest imports: decode, execute, encode."""
