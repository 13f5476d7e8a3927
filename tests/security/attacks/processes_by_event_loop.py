"""Start a process from an event loop."""

import asyncio

from attack_kit import attempt, verdict


async def shell():
    return await asyncio.create_subprocess_shell("true")


async def program():
    return await asyncio.create_subprocess_exec("/bin/true")


async def server():
    return await asyncio.start_server(print, "127.0.0.1", 0)


async def client():
    return await asyncio.open_connection("127.0.0.1", 80)


async def unix():
    return await asyncio.start_unix_server(print, "/app/socket_of_mine")


def run(start):
    work = start()
    try:
        return asyncio.run(work)
    finally:
        work.close()


for start in (shell, program, server, client, unix):
    attempt(start.__name__, run, start)
verdict()
