"use strict";
// The pages of `agentforge ui`: replacement of changed parts, dialogs and drafts.
// htmx sends the requests; responses replace the page part by part, so that whatever a person is
// reading, typing or has opened is not disturbed.
(() => {
  const DRAFT = "agentforge-draft:";
  const one = (selector, from = document) => from.querySelector(selector);
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];

  function refuse() {
    agentforgeKey.drop();
    one("#loading")?.remove();
    one("#refused").hidden = false;
    state("refused", "not connected");
  }

  function state(name, text) {
    const link = one("#link");
    if (link.dataset.state !== name) {
      link.dataset.state = name;
      link.textContent = text;
    }
  }

  // ------------------------------------------------------------- replacing changed parts
  const raw = new WeakMap(); // each part's HTML as the server sent it
  let stale = false; // a new part arrived while the old one could not be replaced

  const isTyping = (element) =>
    element?.matches?.("textarea, select, input:not([type=checkbox], [type=radio])") === true;

  function isBusy(element) {
    if (one("dialog[open], form[data-dirty]", element) || element.matches("form[data-dirty]")) {
      return true;
    }
    const active = document.activeElement;
    if (active && element.contains(active) && isTyping(active)) return true;
    const selection = getSelection();
    return selection !== null && !selection.isCollapsed && element.contains(selection.anchorNode);
  }

  // All `details` elements, named by id, else by summary, numbered among those of the same name.
  function foldings(element) {
    const met = new Map();
    return all("details", element).map((details) => {
      const text = details.id || details.querySelector("summary")?.textContent;
      met.set(text, (met.get(text) ?? 0) + 1);
      return [`${text}#${met.get(text)}`, details];
    });
  }

  function exchange(old, fresh) {
    const opened = new Map(foldings(old).map(([name, details]) => [name, details.open]));
    const scrolled = all("[id]", old)
      .filter((element) => element.scrollTop || element.scrollLeft)
      .map((element) => [element.id, element.scrollTop, element.scrollLeft]);
    const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
    old.replaceWith(fresh);
    for (const [name, details] of foldings(fresh)) {
      if (opened.has(name)) details.open = opened.get(name);
    }
    for (const [id, top, left] of scrolled) {
      document.getElementById(id)?.scrollTo({ top, left, behavior: "instant" });
    }
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  }

  function reconcile(now, next, fresh) {
    const olds = new Map([...now.children].map((child) => [child.id, child]));
    let last = null;
    for (const child of [...next.children]) {
      const old = olds.get(child.id);
      olds.delete(child.id);
      let placed = old;
      if (old === undefined) {
        remember(child);
        fresh.push((placed = child));
      } else if (old.dataset.keyed !== undefined && child.dataset.keyed !== undefined) {
        reconcile(old, child, fresh);
      } else if (raw.get(old) !== child.outerHTML) {
        if (isBusy(old)) {
          stale = true;
        } else {
          remember(child);
          exchange(old, (placed = child));
          fresh.push(child);
        }
      }
      const place = last === null ? now.firstElementChild : last.nextElementSibling;
      if (place !== placed) move(now, placed, place);
      last = placed;
    }
    for (const left of olds.values()) {
      if (!isBusy(left)) {
        left.remove();
      } else if (left.dataset.ended === undefined) {
        left.dataset.ended = "";
        stale = true;
        const note = document.createElement("p");
        note.className = "ended";
        note.role = "status";
        note.textContent = "This has ended elsewhere. What you typed stays here until you leave.";
        left.prepend(note);
      }
    }
  }

  function remember(element) {
    raw.set(element, element.outerHTML);
    if (element.dataset.keyed !== undefined) [...element.children].forEach(remember);
  }

  function move(parent, element, before) {
    const focused = element.contains(document.activeElement) ? document.activeElement : null;
    parent.insertBefore(element, before);
    focused?.focus({ preventScroll: true });
  }

  htmx.defineExtension("keyed", {
    isInlineSwap: (style) => style === "keyed",
    handleSwap: (style, target, content) => {
      if (style !== "keyed") return false;
      const next = content.firstElementChild;
      if (next === null || next.id !== "view") return [];
      const fresh = [];
      const first = target.dataset.title === undefined;
      for (const name of ["title", "topics", "address"]) {
        if (next.dataset[name] === undefined) delete target.dataset[name];
        else target.dataset[name] = next.dataset[name];
      }
      stale = false;
      reconcile(target, next, fresh);
      shown(target, first);
      return fresh;
    },
  });

  function shown(view, first) {
    one("#loading")?.remove();
    document.title = `${view.dataset.title} · agentforge`;
    restoreDrafts(view);
    ages();
    listen();
    if (!first) return;
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (target) {
      if (target.matches("details")) target.open = true;
      target.scrollIntoView();
    }
    one("[autofocus]", view)?.focus();
  }

  const refresh = () => htmx.trigger("#page", "refresh");
  const refreshIfStale = () => setTimeout(() => stale && refresh(), 0);
  document.addEventListener("focusout", refreshIfStale);
  document.addEventListener("close", refreshIfStale, true);
  document.addEventListener("selectionchange", () => {
    if (stale && getSelection().isCollapsed) refreshIfStale();
  });

  document.addEventListener("htmx:configRequest", (event) => {
    event.detail.headers[agentforgeKey.header] = agentforgeKey.value;
    if (event.target.id === "page") event.detail.path = `/view${location.pathname}${location.search}`;
  });
  document.addEventListener("htmx:beforeOnLoad", ({ detail, target }) => {
    const { xhr } = detail;
    if (xhr.status === 401) refuse();
    const address = xhr.getResponseHeader("X-Address");
    if (address && target.dataset.calm !== undefined) history.replaceState(null, "", address);
  });

  // ------------------------------------------------------------------------ change events
  // `fetch` because an EventSource can't send the key in a header, and keys don't go in addresses.
  const rest = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  let listening = false;

  async function listen() {
    if (listening) return;
    listening = true;
    for (let waits = 250; ; waits = Math.min(waits * 2, 5000)) {
      try {
        const answer = await fetch("/events", {
          method: "POST",
          headers: { [agentforgeKey.header]: agentforgeKey.value },
          body: new URLSearchParams({ topics: one("#view").dataset.topics ?? "" }),
        });
        if (answer.status === 401) {
          listening = false;
          return refuse();
        }
        if (answer.ok) {
          if (one("#link").dataset.state !== "connecting") refresh(); // show what was missed
          state("live", "live");
          waits = 250;
          await read(answer.body);
        }
      } catch {
        // the server has ended, or the machine slept: retry
      }
      state("lost", "no answer from the server");
      await rest(waits);
    }
  }

  async function read(body) {
    let text = "";
    for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
      text += chunk;
      const events = text.split("\n\n");
      text = events.pop();
      if (events.some((event) => event.startsWith("event: changed"))) changed();
    }
  }

  // A hidden page requests nothing until it is visible again.
  let due = false;
  let rests = false;
  async function changed() {
    due = true;
    if (rests || document.hidden) return;
    rests = true;
    while (due && !document.hidden) {
      due = false;
      refresh();
      await rest(400);
    }
    rests = false;
  }
  document.addEventListener("visibilitychange", () => due && changed());

  // ------------------------------------------------------------------- times, dialogs, keys
  const steps = [[60, "s"], [3600, "min"], [86400, "h"], [Infinity, "d"]];
  function age(seconds) {
    if (seconds < 5) return "now";
    let unit = 1;
    for (const [end, name] of steps) {
      if (seconds < end) return `${Math.floor(seconds / unit)} ${name}`;
      unit = end;
    }
    return "";
  }
  function ages() {
    const now = Date.now();
    for (const time of all("time[data-ago]")) {
      const text = age(Math.max(0, (now - Date.parse(time.dateTime)) / 1000));
      if (time.textContent !== text) time.textContent = text;
    }
  }
  setInterval(ages, 5000);

  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-dialog]");
    if (opener) {
      const dialog = document.getElementById(opener.dataset.dialog);
      for (const field of all("[data-takes]", dialog)) {
        const value = opener.dataset[field.dataset.takes] ?? "";
        if (field.matches("input")) field.value = value;
        else field.textContent = value;
      }
      for (const outcome of all(".outcome", dialog)) outcome.replaceChildren();
      dialog.showModal();
      one("[data-first]", dialog)?.focus();
    } else if (event.target.closest("[data-close]")) {
      event.target.closest("dialog")?.close();
    }
  });

  document.body.addEventListener("done", (event) => {
    const { say, go } = event.detail;
    const form = event.target.closest?.("form");
    if (form) {
      delete form.dataset.dirty;
      forgetDraft(form);
      form.closest("dialog")?.close();
    }
    if (go) return location.assign(go);
    const toast = document.createElement("p");
    toast.textContent = say;
    one("#toasts").append(toast);
    setTimeout(() => toast.remove(), 8000);
    refresh();
  });

  // A form that opens another page; its address omits empty fields.
  document.addEventListener("submit", (event) => {
    const { go, fields } = event.target.dataset;
    if (go === undefined) return;
    event.preventDefault();
    const names = fields.split(" ");
    const given = [...new FormData(event.target)].filter(
      ([name, value]) => names.includes(name) && value.trim(),
    );
    location.assign(`${go}?${new URLSearchParams(given)}`);
  });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || one("dialog[open]")) return;
    if (isTyping(document.activeElement)) {
      if (event.key === "Escape") document.activeElement.blur();
      return;
    }
    const rows = all(".rows a[id]");
    const at = rows.indexOf(document.activeElement);
    if (event.key === "/" && one("#q")) {
      event.preventDefault();
      one("#q").focus();
    } else if (event.key === "j" && rows.length) {
      rows[Math.min(at + 1, rows.length - 1)].focus();
    } else if (event.key === "k" && rows.length) {
      rows[Math.max(at - 1, 0)].focus();
    } else if (event.key === "?" && one("#keys")) {
      one("#keys").showModal();
    }
  });

  // -------------------------------------------------------------------------------- drafts
  // Text typed for a question is stored for this tab until it is sent.
  document.addEventListener("input", (event) => {
    const form = event.target.closest("form");
    if (form === null || form.dataset.calm !== undefined) return;
    form.dataset.dirty = "";
    const other = event.target.dataset.chooses && document.getElementById(event.target.dataset.chooses);
    if (other && event.target.value.trim()) other.checked = true;
    if (form.dataset.draft) {
      const fields = [...new FormData(form)].filter(([, value]) => typeof value === "string");
      sessionStorage.setItem(DRAFT + form.dataset.draft, JSON.stringify(fields));
    }
  });
  document.addEventListener("reset", (event) => {
    delete event.target.dataset.dirty;
    forgetDraft(event.target);
    refreshIfStale();
  });

  function forgetDraft(form) {
    if (form.dataset.draft) sessionStorage.removeItem(DRAFT + form.dataset.draft);
  }

  function restoreDrafts(view) {
    for (const form of all("form[data-draft]:not([data-restored])", view)) {
      form.dataset.restored = "";
      const kept = sessionStorage.getItem(DRAFT + form.dataset.draft);
      if (kept === null) continue;
      const fields = JSON.parse(kept);
      for (const field of form.elements) {
        const values = fields.filter(([name]) => name === field.name).map(([, value]) => value);
        if (field.type === "checkbox" || field.type === "radio") {
          field.checked = values.includes(field.value);
        } else if (field.matches("textarea, select") && values.length) {
          field.value = values[0];
        }
      }
      form.dataset.dirty = "";
    }
  }

  // --------------------------------------------------------------------------------- start
  function begin() {
    one("#refused").hidden = true;
    for (const link of all(".top a[href]")) {
      const here = link.getAttribute("href");
      const within = here === "/" ? /^\/(sessions\/|search$|$)/.test(location.pathname)
        : location.pathname.startsWith(here);
      if (within && !link.matches(".brand")) link.setAttribute("aria-current", "page");
    }
    refresh();
  }

  document.addEventListener("DOMContentLoaded", () => {
    document.body.setAttribute("hx-ext", "keyed");
    agentforgeKey.find(begin, refuse);
  });
})();
