# expect: trapped crash, or exit 1
"""Have the fault handler's own tests fault."""

import faulthandler

print("CONTAINED", flush=True)
for name in ("_stack_overflow", "_sigabrt", "_fatal_error_c_thread", "_sigsegv", "_read_null"):
    function = getattr(faulthandler, name, None)
    if function is not None:
        try:
            function()
        except Exception as error:
            print("refused", name, type(error).__name__, flush=True)
raise SystemExit(1)
