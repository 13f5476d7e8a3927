"""The WebAssembly engine through its C API: load it, enter and interrupt guests."""
