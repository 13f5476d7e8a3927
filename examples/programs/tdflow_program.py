"""TDFLOW as a program: tests that fail, code that passes them, and a person who accepts it.

    agentforge run examples/programs/tdflow_program.py --spec examples/specs/session-manager.yaml \
        --component session_domain --agent recorded:examples/recordings/session_domain

It may be killed at any time, and be answered in days: the same command goes on at that line.
"""

from agentforge import Unanswered, agent, ask, gate

RED = "Write the tests of the component, and only them. Each of them has to fail for want of it."
GREEN = "Write the component so that all tests pass. The tests are fixed."
REFACTOR = "Improve the component without any change of behaviour. The tests are fixed."
TRIES = 3


async def develop(name, task, writes, judge, **checks):
    """Have the agent write until the gate is passed; show it what was wrong each time."""
    prompt = task
    for _ in range(TRIES):
        try:
            await agent(prompt, name=name, writes=writes, gate=judge)
        except Unanswered as error:
            wrong = str(error)
        else:
            verdict = await gate(judge, name=f"{name}-gate", **checks)
            if verdict["passed"]:
                return verdict["summary"]
            wrong = "\n".join([verdict["summary"], *verdict["evidence"]])
        prompt = f"{task}\n\nThe last attempt did not pass:\n\n{wrong}"
    raise SystemExit(f"{name} did not pass in {TRIES} tries: {wrong}")


print("red:", await develop("red", RED, ["tests"], "tests_fail", covers_criteria=True))
while True:
    print("green:", await develop("green", GREEN, ["code"], "tests_pass"))
    print("refactor:", await develop("refactor", REFACTOR, ["code"], "tests_pass"))
    suite = await gate("suite", name="verify", covers_criteria=True)
    said = await ask(f"{suite['summary']}. Accept it?", options=["Accept", "Change it"])
    if said == "Accept":
        break
    GREEN = f"{GREEN}\n\nThe person who ordered it says: {said}"
