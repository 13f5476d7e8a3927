# expect: trapped deadline
"""Never end."""

print("CONTAINED", flush=True)
while True:
    try:
        while True:
            pass
    except BaseException:
        continue
