# long
# expect: exit 0, or trapped crash
"""Build, compare, show and drop objects that hold each other a million deep."""

print("CONTAINED", flush=True)
nested = []
for _ in range(10**6):
    nested = [nested]
for use in (repr, hash, lambda value: value == [value], str):
    try:
        use(nested)
    except (RecursionError, TypeError, MemoryError) as error:
        print("refused", type(error).__name__)
del nested
