"""What coroutines wait for and hold, and what only they can do."""

from __future__ import annotations

from typing import Final

from tests.property.sandbox.live._kinds import Kind


def waiting(name: str, setup: str, use: str, **more: str) -> Kind:
    return Kind(name, "import asyncio\n" + setup.strip("\n"), use, **more, awaits=True)  # type: ignore[arg-type]


SETTLE: Final = "for _ in range(8): await asyncio.sleep(0)\n"

WAITING: Final = (
    waiting(
        "async generator",
        """
async def ticksszz():
    try:
        for n in range(99):
            await asyncio.sleep(0)
            got = yield n
            if got: print('got', got)
    finally:
        await asyncio.sleep(0); print('ticks closed')
tickszz = ticksszz(); await anext(tickszz)
""",
        "print('async generator', await anext(tickszz), await tickszz.asend(kk))",
        after="await tickszz.aclose()",
    ),
    waiting(
        "lock held",
        """
lockzz, gotzz = asyncio.Lock(), []
async def takezz(n):
    async with lockzz: gotzz.append(n); await asyncio.sleep(0)
await lockzz.acquire()
takerszz = [asyncio.create_task(takezz(n)) for n in range(3)]
""",
        f"""
print('lock', lockzz.locked(), list(gotzz))
if kk == 1:
    lockzz.release()
    {SETTLE.replace(chr(10), "")}
    await lockzz.acquire()
""",
        after="lockzz.release(); await asyncio.gather(*takerszz); print('lock', gotzz)",
    ),
    waiting(
        "queue with workers",
        """
workzz, donezz = asyncio.Queue(maxsize=3), []
async def workerzz(name):
    while True:
        one = await workzz.get()
        await asyncio.sleep(0)
        donezz.append(one); workzz.task_done()
workerszz = [asyncio.create_task(workerzz(n)) for n in range(3)]
for n in range(5): await workzz.put(n)
""",
        "for n in range(4): await workzz.put(kk * 10 + n)\n"
        "await workzz.join(); print('queue', sorted(donezz), workzz.empty())",
        after="for one in workerszz: one.cancel()\n"
        "print(await asyncio.gather(*workerszz, return_exceptions=True))",
    ),
    waiting(
        "event",
        """
eventzz, wokenzz = asyncio.Event(), []
async def waitzz(n):
    await eventzz.wait(); wokenzz.append(n)
waiterszz = [asyncio.create_task(waitzz(n)) for n in range(3)]
""",
        "print('event', sorted(wokenzz)); eventzz.set(); await asyncio.gather(*waiterszz)\n"
        "eventzz.clear(); waiterszz = [asyncio.create_task(waitzz(kk * 10))]",
        after="eventzz.set(); await waiterszz[0]; print('event', wokenzz)",
    ),
    waiting(
        "semaphore and barrier",
        """
semzz, barrierzz, inszz = asyncio.BoundedSemaphore(2), asyncio.Barrier(2), []
async def enterzz(n):
    async with semzz: inszz.append(n); await barrierzz.wait(); return n
enteringzz = [asyncio.create_task(enterzz(n)) for n in range(4)] + [asyncio.create_task(enterzz(9))]
""",
        f"{SETTLE}print('semaphore', sorted(inszz), barrierzz.n_waiting, semzz.locked())",
        after="print(await barrierzz.wait() in (0, 1), sorted(await asyncio.gather(*enteringzz)))",
    ),
    waiting(
        "condition",
        """
conditionzz, valuezz = asyncio.Condition(), [0]
async def untilzz(n):
    async with conditionzz: await conditionzz.wait_for(lambda: valuezz[0] >= n); return n
untilszz = [asyncio.create_task(untilzz(n)) for n in range(1, 4)]
""",
        f"""
async with conditionzz: valuezz[0] += 1; conditionzz.notify_all()
{SETTLE}print('condition', [one.done() for one in untilszz])
""",
        after="""
async with conditionzz: valuezz[0] = 9; conditionzz.notify_all()
print(await asyncio.gather(*untilszz))
""",
    ),
    waiting(
        "task group",
        """
async def jobzz(n):
    await gatezz.wait(); return n * 2
gatezz, jobszz = asyncio.Event(), []
""",
        "jobszz.append(groupzz.create_task(jobzz(kk)))\nprint('group', [one.done() for one in jobszz])",
        around="async with asyncio.TaskGroup() as groupzz:\n    jobszz.append(groupzz.create_task(jobzz(0)))",
        after="    gatezz.set()\nprint('group', [one.result() for one in jobszz])",
    ),
    waiting(
        "timeout",
        "",
        "print('timeout', timezz.expired(), timezz.when() is not None)",
        around="async with asyncio.timeout(3600) as timezz:",
        after="print('timeout', timezz.expired())",
    ),
    waiting(
        "timeout that passed",
        """
async def neverzz():
    async with asyncio.timeout(0.001): await asyncio.Event().wait()
neverszz = asyncio.create_task(neverzz())
""",
        "",
        after="try: await neverszz\nexcept TimeoutError: print('timed out')",
    ),
    waiting(
        "gather under way",
        """
async def partzz(n):
    for _ in range(n): await turnzz.wait()
    return n
turnzz = asyncio.Event(); allzz = asyncio.gather(*map(partzz, range(4)))
""",
        f"{SETTLE}print('gather', allzz.done())",
        after="turnzz.set(); print('gather', await allzz)",
    ),
    waiting(
        "shielded and cancelled",
        """
async def stubbornzz():
    try: await stopzz.wait()
    except asyncio.CancelledError: print('cancelled'); raise
    return 'whole'
stopzz = asyncio.Event(); innerzz = asyncio.create_task(stubbornzz())
shieldzz = asyncio.shield(innerzz); victimzz = asyncio.create_task(stubbornzz()); await asyncio.sleep(0)
""",
        f"if kk == 1: shieldzz.cancel(); victimzz.cancel()\n{SETTLE}"
        "print('shield', shieldzz.cancelled(), innerzz.done(), victimzz.cancelled())",
        after="stopzz.set(); print('shield', await innerzz)",
    ),
    waiting(
        "future with callbacks",
        """
futurezz, calledzz = asyncio.get_running_loop().create_future(), []
futurezz.add_done_callback(lambda one: calledzz.append(one.result()))
handlezz = asyncio.get_running_loop().call_later(3600, calledzz.append, 'late')
""",
        f"if kk == 1: futurezz.set_result(kk)\n{SETTLE}"
        "print('future', futurezz.done(), calledzz, handlezz.cancelled())",
        after="handlezz.cancel(); futurezz.done() or futurezz.cancel()",
    ),
    waiting(
        "async context manager",
        """
import contextlib
@contextlib.asynccontextmanager
async def aroundzz(name):
    await asyncio.sleep(0); print('enter', name)
    try: yield name
    finally: await asyncio.sleep(0); print('exit', name)
""",
        "print('async with', managedzz)",
        around="async with aroundzz('zz') as managedzz:",
        after="print('async with after')",
    ),
    waiting(
        "async exit stack",
        """
import contextlib
stackzz = contextlib.AsyncExitStack()
async def closezz(n): await asyncio.sleep(0); print('closing', n)
stackzz.push_async_callback(closezz, 0); stackzz.callback(print, 'plain')
""",
        "stackzz.push_async_callback(closezz, kk)",
        after="await stackzz.aclose()",
    ),
    waiting(
        "async for",
        """
async def numberszz():
    for n in range(3): await asyncio.sleep(0); yield n
""",
        "print('async for', onezz, [n async for n in numberszz()], [await asyncio.sleep(0, n) for n in 'ab'])",
        around="async for onezz in numberszz():\n    if onezz != 1: continue",
        after="print('async for ended', onezz)",
    ),
    waiting(
        "context of tasks",
        """
import contextvars
ownzz = contextvars.ContextVar('ownzz', default=0)
async def seezz(n): ownzz.set(n); await lookzz.wait(); return ownzz.get()
lookzz = asyncio.Event(); seerszz = [asyncio.create_task(seezz(n)) for n in range(3)]; ownzz.set(7)
""",
        "print('task context', ownzz.get(), [one.done() for one in seerszz]); ownzz.set(7 + kk)",
        after="lookzz.set(); print(await asyncio.gather(*seerszz), ownzz.get())",
    ),
    waiting(
        "tasks as they complete",
        """
async def endzz(n): await finishzz[n].wait(); return n
finishzz = [asyncio.Event() for _ in range(4)]
endszz = asyncio.as_completed([asyncio.create_task(endzz(n)) for n in range(4)])
""",
        "finishzz[kk].set(); print('completed', await next(endszz))",
        after="for one in finishzz: one.set()\nprint(sorted([await one for one in endszz]))",
    ),
    waiting(
        "stream reader",
        """
streamzz = asyncio.StreamReader(); streamzz.feed_data(b'first\\nsec')
readerzz = asyncio.create_task(streamzz.readexactly(30)); print(await asyncio.sleep(0))
""",
        "streamzz.feed_data(b'ond kk'); print('stream', readerzz.done())",
        after="streamzz.feed_data(b'x' * 40); print(await readerzz); streamzz.feed_eof()\n"
        "print(await streamzz.read())",
    ),
    waiting(
        "eager and named tasks",
        """
async def namedzz(): await nevezz.wait(); return asyncio.current_task().get_name()
nevezz = asyncio.Event(); taskzz = asyncio.create_task(namedzz(), name='namezz')
eagerzz = asyncio.eager_task_factory(asyncio.get_running_loop(), namedzz())
""",
        "print('named', taskzz.get_name(), taskzz in asyncio.all_tasks(), taskzz.get_coro().cr_running)",
        after="nevezz.set(); print(await taskzz, (await eagerzz).startswith('Task-'))",
    ),
)
