"""How `asyncio.run` works in a durable program; a part of the guest's driver.

At a script's top level it is awaited on the loop that lasts, so that what it runs can be suspended:
the script's code is rewritten there, and nowhere else. In a plain function it runs a loop of its
own, even where another one runs.
"""

from __future__ import annotations

from typing import Final

ASYNCIO_RUN: Final = r"""
# ---------------------------------------------------------------- asyncio.run

plain = weakref.WeakSet()
run_elsewhere = runners.run

def run_nested(main, *, debug=None, loop_factory=None):
    # In a plain function that a coroutine calls, it runs a loop of its own.
    outer = events._get_running_loop()
    if outer is None or awaits(sys._getframe(1)):
        return run_elsewhere(main, debug=debug, loop_factory=loop_factory)
    task = tasks._swap_current_task(outer, None)
    events._set_running_loop(None)
    try:
        return run_elsewhere(main, debug=debug, loop_factory=loop_factory)
    finally:
        events._set_running_loop(outer)
        tasks._swap_current_task(outer, task)

run_nested.__name__ = run_nested.__qualname__ = 'run'
run_nested.__doc__ = run_elsewhere.__doc__

async def run_here(function, /, *arguments, **named):
    # What a call at the top level becomes: `asyncio.run` is awaited, so that it can be suspended.
    if function is not run_nested or named.get('loop_factory') is not None:
        return function(*arguments, **named)
    return await run_awaited(*arguments, **named)

async def run_awaited(main, *, debug=None, loop_factory=None):
    if not inspect.isawaitable(main):
        raise TypeError('An asyncio.Future, a coroutine or an awaitable is required')
    tasks_before, generators_before = asyncio.all_tasks(), {*loop._asyncgens}
    was = loop.get_debug()
    if debug is not None:
        loop.set_debug(debug)
    try:
        return await loop.create_task(main if asyncio.iscoroutine(main) else result_of(main))
    finally:
        left = asyncio.all_tasks() - tasks_before
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        for each in {*loop._asyncgens} - generators_before:
            await each.aclose()
        loop.set_debug(was)

async def result_of(awaitable):
    return await awaitable

class Awaited(ast.NodeTransformer):
    # Awaits the calls of `asyncio.run` at the top level; it is known there by these names.
    found = awaits = False
    def __init__(self, modules, functions):
        self.modules, self.functions = modules, functions
    def as_it_is(self, node):
        return node
    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = visit_ClassDef = as_it_is
    def visit_Await(self, node):
        self.awaits = True
        return self.generic_visit(node)
    visit_AsyncFor = visit_AsyncWith = visit_Await
    def visit_ListComp(self, node):
        parts = [*ast.walk(node)]
        self.awaits |= any(isinstance(each, ast.Await) for each in parts)
        self.awaits |= any(getattr(each, 'is_async', False) for each in parts)
        return node
    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp
    def visit_Import(self, node):
        self.modules |= {each.asname or each.name for each in node.names if each.name == 'asyncio'}
        return node
    def visit_ImportFrom(self, node):
        if node.module == 'asyncio' and not node.level:
            found = [each for each in node.names if each.name == 'run']
            self.functions |= {each.asname or each.name for each in found}
        return node
    def visit_Call(self, node):
        self.generic_visit(node)
        match node.func:
            case ast.Name(id=name) if name in self.functions:
                pass
            case ast.Attribute(value=ast.Name(id=name), attr='run') if name in self.modules:
                pass
            case _:
                return node
        self.found = True
        helper = ast.parse("__import__('agentforge')._run_here", mode='eval').body
        for each in ast.walk(helper):
            ast.copy_location(each, node)
        called = ast.Call(helper, [node.func, *node.args], node.keywords)
        return ast.copy_location(ast.Await(ast.copy_location(called, node)), node)

def compiled(source, names):
    if 'run' in source:
        awaited = Awaited(
            {name for name, value in names.items() if value is asyncio},
            {name for name, value in names.items() if value is run_nested},
        )
        tree = awaited.visit(ast.parse(source, NAME))
        code = compile(tree, NAME, 'exec', AWAITING, dont_inherit=True)
        if awaited.found and not awaited.awaits:
            plain.add(code)
        return code
    return compile(source, NAME, 'exec', AWAITING, dont_inherit=True)
"""
"""`asyncio.run`, and the compiler of scripts that call it."""
