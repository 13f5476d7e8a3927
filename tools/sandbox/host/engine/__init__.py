"""The WebAssembly engine by its C API: loading, entering, interrupting a guest."""
