# expect: trapped deadline
"""Wait for something nobody will say."""

import asyncio

print("CONTAINED", flush=True)


async def wait():
    await asyncio.Queue().get()


while True:
    try:
        asyncio.run(wait())
    except Exception as error:
        print(type(error).__name__)
