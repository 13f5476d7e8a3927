// AgentForge sessions inside opencode: passes every event to `agentforge-hook opencode`, which records
// it and answers. `agentforge install opencode` wrote this file, `agentforge install --remove opencode`
// removes it. Errors here never affect the agent's turn.
import { spawn } from "node:child_process"

const GUARD = "@GUARD@" // answers where the hook has nothing to do
const HOOK = GUARD ? ["sh", GUARD, "@HOOK@", "opencode"] : ["@HOOK@", "opencode"]
const SERVER = ["@AGENTFORGE@", "mcp"]
const TIMEOUT_MS = 60_000
const GATE_TIMEOUT_MS = 900_000 // the end of a turn may run the project's own check
const PART_CHARS = 60_000 // of a text that is passed on: its beginning and its end
const PARTS_WAITING = 500
const MESSAGES_READ = 200 // of a resumed conversation: fewer than the hook remembers by id

// Run the hook once; the answer is {} if it prints nothing, fails or takes too long.
function call(payload, timeout) {
  return new Promise((resolve) => {
    let text = ""
    const answer = () => {
      try {
        resolve(JSON.parse(text || "{}") ?? {})
      } catch {
        resolve({})
      }
    }
    try {
      const stdio = ["pipe", "pipe", "ignore"]
      const hook = spawn(HOOK[0], HOOK.slice(1), { cwd: payload.cwd, stdio, timeout, killSignal: "SIGKILL" })
      hook.on("error", () => resolve({}))
      hook.on("close", answer)
      hook.stdout.setEncoding("utf8").on("data", (piece) => (text += piece))
      hook.stdin.on("error", () => {})
      hook.stdin.end(JSON.stringify(payload))
    } catch {
      resolve({})
    }
  })
}

function tokensOf(info) {
  const { total, input = 0, output = 0, reasoning = 0, cache = {} } = info?.tokens ?? {}
  const [cache_read, cache_write] = [cache.read ?? 0, cache.write ?? 0]
  const all = total ?? input + output + reasoning + cache_read + cache_write
  return { total: all, cache_read, cache_write, output, reasoning }
}

function usageOf(info) {
  if (info?.role !== "assistant") return undefined
  const tokens = tokensOf(info)
  if (!tokens.total) return undefined
  const at = new Date(info.time?.created ?? Date.now()).toISOString()
  return { id: info.id, model: info.modelID ?? "", tokens, cost: info.cost ?? 0, at }
}

function filesOf(tool, args, metadata) {
  if (tool === "write") return [{ path: args?.filePath, created: metadata?.exists === false }]
  if (tool === "edit") return [{ path: args?.filePath, created: args?.oldString === "" }]
  if (tool === "multiedit") return [{ path: args?.filePath, created: false }]
  if (tool !== "apply_patch" && tool !== "patch") return []
  return (metadata?.files ?? [])
    .filter((one) => one?.type !== "delete")
    .map((one) => ({ path: one?.movePath ?? one?.filePath, created: one?.type === "add" }))
}

// The result of a call of our own tool that asks a person; the hook finds the question.
function questionOf(tool, args, output) {
  if (!tool.endsWith("agentforge_ask") || !output?.structuredContent) return {}
  const { structuredContent } = output
  return { tool_name: tool, tool_input: { question: args?.question }, tool_response: { structuredContent } }
}

function cut(text) {
  if (typeof text !== "string" || text.length <= PART_CHARS) return text
  const half = PART_CHARS / 2
  return `${text.slice(0, half)}\n[… ${text.length - PART_CHARS} characters are left out …]\n${text.slice(-half)}`
}

function cutAll(input) {
  const texts = Object.entries(input ?? {}).map(([name, one]) => [name, cut(one)])
  return JSON.stringify(input ?? {}).length <= PART_CHARS ? input : Object.fromEntries(texts)
}

// A finished part of a message as the transcript has it; undefined for any other.
function partOf(part) {
  const { id, type, sessionID, state, time } = part
  const at = state?.time?.end ?? time?.end
  if (at === undefined) return undefined
  if (type !== "tool" && part.text) return { type, id, sessionID, at, text: cut(part.text) }
  if (type !== "tool") return undefined
  const { status, input, metadata } = state
  const diffs = metadata?.files ?? [{ filePath: input?.filePath, diff: metadata?.diff }]
  const files = diffs.map((one) => ({ path: one?.movePath ?? one?.filePath, diff: cut(one?.diff ?? one?.patch) }))
  const output = cut(state.output ?? state.error)
  const shown = { tool: part.tool, status, input: cutAll(input), output, exit: metadata?.exit, files }
  return { type, id: part.callID, sessionID, at, ...shown }
}

// One conversation of a person with opencode; its subagents' sessions belong to it.
class Conversation {
  constructor(id, directory, show) {
    this.show = show // shows a text to the person, not to the model
    this.id = id
    this.directory = directory
    this.last = Promise.resolve({})
    this.started = undefined
    this.briefing = ""
    this.notice = ""
    this.stop = undefined
    this.said = ""
    this.atWork = false
    this.failed = false
    this.summary = undefined
    this.auto = false
    this.usage = new Map() // reported again with each new message: a call of the hook may have failed
    this.parts = [] // what the next event passes on for the transcript
  }

  note(part) {
    if (part && this.parts.length < PARTS_WAITING) this.parts.push(part)
  }

  // Pass events to the hook one after another, in the order in which they happened.
  tell(name, fields = {}, timeout = TIMEOUT_MS) {
    const parts = this.parts.splice(0)
    const payload = { hook_event_name: name, session_id: this.id, cwd: this.directory, parts, ...fields }
    this.last = this.last.then(() => call(payload, timeout)).then((answer) => this.take(name, answer))
    return this.last
  }

  take(name, answer) {
    if (answer.systemMessage) this.show(answer.systemMessage)
    if (name === "session.started") {
      this.briefing = answer.context ?? ""
      this.notice = ""
    } else if (answer.context) this.notice = answer.context
    if (name === "chat.message") this.stop = answer.refuse
    else if (answer.stop) this.stop = answer.stop
    return answer
  }
}

export const AgentForge = async ({ client, directory }) => {
  if (process.env.AGENTFORGE_CALL) return {} // a runner of ours asks: it records and charges itself
  const parents = new Map() // the id of the session above each; undefined for a person's own
  const conversations = new Map()
  const reported = new Map()
  const texts = new Map()

  function show(message) {
    Promise.resolve(client.tui?.showToast?.({ body: { message, variant: "warning" } })).catch(() => {})
  }

  async function parentOf(id) {
    if (!parents.has(id)) {
      const found = await client.session.get({ path: { id } }).catch(() => undefined)
      parents.set(id, found?.data?.parentID)
    }
    return parents.get(id)
  }

  async function rootOf(id) {
    for (let above = await parentOf(id); above; above = await parentOf(id)) id = above
    return id
  }

  function known(id) {
    for (let depth = 0; parents.get(id) && depth < 100; depth++) id = parents.get(id)
    return of(id)
  }

  function of(id) {
    if (!conversations.has(id)) conversations.set(id, new Conversation(id, directory, show))
    return conversations.get(id)
  }

  function isNew(usage) {
    if (!usage || (reported.get(usage.id) ?? 0) >= usage.tokens.total) return false
    keep(reported, usage.id, usage.tokens.total)
    return true
  }

  function keep(map, key, value) {
    map.delete(key)
    map.set(key, value)
    if (map.size > 1000) map.delete(map.keys().next().value)
  }

  // The earlier cost of a resumed conversation: it is charged once, by the messages' ids.
  async function spentBefore(id) {
    const sessions = [id]
    for (let at = 0; at < sessions.length && sessions.length < 50; at++) {
      const found = await client.session.children({ path: { id: sessions[at] } }).catch(() => undefined)
      for (const one of found?.data ?? []) {
        parents.set(one.id, sessions[at])
        sessions.push(one.id)
      }
    }
    const messages = []
    for (const one of sessions) {
      const query = { limit: MESSAGES_READ }
      const found = await client.session.messages({ path: { id: one }, query }).catch(() => undefined)
      messages.push(...(found?.data ?? []).map((message) => message.info))
    }
    messages.sort((a, b) => (a?.time?.created ?? 0) - (b?.time?.created ?? 0))
    return messages.slice(-MESSAGES_READ).map(usageOf).filter(isNew)
  }

  async function begun(id) {
    const talk = of(await rootOf(id))
    talk.started ??= (async () => {
      const isFresh = parents.get(talk.id) === undefined && talk.isFresh
      const usage = isFresh ? [] : await spentBefore(talk.id)
      await talk.tell("session.started", { source: isFresh ? "startup" : "resume", usage })
    })().catch(() => {})
    await talk.started
    await talk.last
    return talk
  }

  function happened(event) {
    const { type, properties = {} } = event
    const info = properties.info
    if (type === "session.created" && info?.id) {
      parents.set(info.id, info.parentID)
      if (!info.parentID) of(info.id).isFresh = true
    } else if (type === "message.updated" && info?.sessionID) {
      const talk = known(info.sessionID)
      if (info.summary === true) talk.summary = info.id
      if (info.role === "assistant" && info.sessionID === talk.id) talk.failed = Boolean(info.error)
      const usage = usageOf(info)
      if (!isNew(usage)) return
      const { id, sessionID, modelID: model, tokens, time } = info
      talk.note({ type: "usage", id, sessionID, at: time?.completed, model, tokens })
      keep(talk.usage, usage.id, usage)
      talk.tell("message.updated", { usage: [...talk.usage.values()].slice(-MESSAGES_READ) })
    } else if (type === "message.part.updated" && properties.part?.type === "compaction") {
      known(properties.part.sessionID).auto = Boolean(properties.part.auto)
    } else if (type === "message.part.updated" && properties.part?.sessionID) {
      const talk = known(properties.part.sessionID)
      const isSummary = properties.part.messageID === talk.summary
      talk.note(partOf(isSummary ? { ...properties.part, type: "summary" } : properties.part))
    } else if (type === "todo.updated" && properties.sessionID) {
      const { sessionID, todos } = properties
      known(sessionID).note({ type: "todos", id: `todos-${Date.now()}`, sessionID, at: Date.now(), todos })
    } else if (type === "session.compacted") {
      const talk = known(properties.sessionID)
      if (talk.id !== properties.sessionID) return
      const text = texts.get(talk.summary) ?? ""
      talk.said = "" // it was the summary
      talk.tell("session.compacted", { text, trigger: talk.auto ? "auto" : "manual" })
      talk.tell("session.started", { source: "compact" })
    } else if (type === "session.status" && properties.status?.type === "idle") {
      turnEnded(known(properties.sessionID), properties.sessionID)
    }
  }

  function turnEnded(talk, id) {
    if (talk.id !== id || !talk.atWork) return
    talk.atWork = false
    const text = talk.said
    talk.said = ""
    if (talk.failed || talk.stop) return
    talk.tell("session.idle", { text }, GATE_TIMEOUT_MS).then((answer) => {
      if (!answer.goOn) return
      const parts = [{ type: "text", text: answer.goOn, synthetic: true }]
      return client.session.promptAsync({ path: { id }, body: { parts } })
    }).catch(() => {})
  }

  return {
    config: async (config) => {
      config.mcp ??= {}
      config.mcp.agentforge ??= { type: "local", command: SERVER }
    },
    event: async ({ event }) => {
      try {
        happened(event)
      } catch {}
    },
    "chat.message": async ({ sessionID }, { parts }) => {
      const talk = await begun(sessionID)
      if (talk.id !== sessionID) return
      talk.atWork = true
      talk.failed = false
      const said = parts.filter((one) => one.type === "text" && !one.synthetic).map((one) => one.text)
      const text = said.join("\n")
      const id = parts[0]?.messageID
      if (id && text) talk.note({ type: "user", id, sessionID, at: Date.now(), text: cut(text) })
      await talk.tell("chat.message", { text, by_person: said.length > 0 })
    },
    "experimental.chat.system.transform": async ({ sessionID }, { system }) => {
      if (!sessionID) return
      const talk = await begun(sessionID)
      if (talk.id !== sessionID || /^You are a title generator/.test(system[0] ?? "")) return
      for (const text of [talk.briefing, talk.notice]) if (text) system.push(text)
    },
    "chat.params": async ({ sessionID }) => {
      const talk = await begun(sessionID)
      if (talk.stop) throw new Error(talk.stop) // the one way to send no request, and to say why
    },
    "experimental.text.complete": async ({ sessionID, messageID }, { text }) => {
      keep(texts, messageID, text)
      const talk = known(sessionID)
      if (talk.id === sessionID) talk.said = text
    },
    "tool.execute.after": async ({ tool, sessionID, args }, output) => {
      const files = filesOf(tool, args, output?.metadata).filter((one) => typeof one.path === "string")
      const question = questionOf(tool, args, output)
      if (files.length || question.tool_name)
        await (await begun(sessionID)).tell("tool.execute.after", { files, ...question })
    },
    "experimental.session.compacting": async ({ sessionID }) => {
      const talk = await begun(sessionID)
      if (talk.id === sessionID) await talk.tell("session.compacting")
    },
    dispose: async () => {
      await Promise.all([...conversations.values()].map((talk) => talk.last))
    },
  }
}
