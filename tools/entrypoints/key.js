"use strict";
// How a page has the key: by the code of its address, by the code that it kept for its reload, or
// from another tab of the same origin. The key is in the memory of pages alone. What stays in the
// address bar's history and in `sessionStorage`, which browsers write to files, is a code that can
// be exchanged once, within some minutes.
const agentforgeKey = (() => {
  const HEADER = "X-Agentforge-Key";
  const KEPT = "agentforge-codes";
  const AGAIN_MS = 250;
  let key = null;
  let had = () => {};
  const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

  function codeOfAddress() {
    const code = new URLSearchParams(location.hash.slice(1)).get("code");
    if (code !== null) history.replaceState(null, "", location.pathname + location.search);
    return code;
  }

  function newCode() {
    const bytes = String.fromCharCode(...crypto.getRandomValues(new Uint8Array(24)));
    return btoa(bytes).replaceAll("+", "-").replaceAll("/", "_");
  }

  // What asks for a code to be accepted shows the key; what exchanges one has none yet.
  function post(path, fields, headers = {}) {
    return fetch(path, { method: "POST", keepalive: true, headers, body: new URLSearchParams(fields) });
  }

  async function exchanged(code, following) {
    const answer = await post("/key", { code, following });
    return answer.ok ? answer.text() : null;
  }

  // A page may be left before it has the answer: until then the codes before are kept too.
  async function byCodes() {
    const given = codeOfAddress();
    const kept = (sessionStorage.getItem(KEPT) ?? "").split(" ").filter(Boolean).slice(0, 4);
    const following = newCode();
    sessionStorage.setItem(KEPT, [following, ...kept].join(" "));
    const before = key;
    for (let tries = 0; tries < (kept.length ? 4 : 1); tries++) {
      if (tries) await wait(AGAIN_MS); // the page before may just be renewing its code
      for (const code of given === null ? kept : [given, ...kept]) {
        const found = await exchanged(code, following).catch(() => null);
        if (found !== null) return found;
        if (key !== before) return null; // another tab was sooner
      }
    }
    return null;
  }

  const tabs = new BroadcastChannel("agentforge-key");
  tabs.onmessage = ({ data }) => {
    if (data === "key?" && key !== null) tabs.postMessage({ key });
    else if (key === null && typeof data?.key === "string") has(data.key);
  };

  function has(found) {
    key = found;
    const codes = sessionStorage.getItem(KEPT)?.split(" ") ?? [];
    if (codes.length) sessionStorage.setItem(KEPT, codes[0]);
    renew();
    had(key);
  }

  // The code that is kept can be exchanged for some minutes, counted from when the page is left.
  function renew() {
    const code = sessionStorage.getItem(KEPT);
    if (key !== null && code !== null) post("/code", { code }, { [HEADER]: key }).catch(() => {});
  }
  addEventListener("pagehide", renew);

  async function find(refused) {
    const found = await byCodes();
    if (found !== null) return has(found);
    tabs.postMessage("key?");
    await wait(400);
    if (key === null) refused();
  }

  return {
    header: HEADER,
    get value() { return key; },
    // The server does not take it: it is of a former start.
    drop() { key = null; },
    // Calls `having` once the page has the key, and `refused` each time that nothing gives it one.
    find(having, refused) {
      had = having;
      // An address that differs in its fragment alone loads no page.
      addEventListener("hashchange", () => /^#code=/.test(location.hash) && find(refused));
      find(refused);
    },
  };
})();
