// Keeps what is shown as it is now. Without it, pages say what was so when they were opened; everything else is plain HTML.
"use strict";
(() => {
  const RETRY = 5000;
  const GATHER = 200;
  const AGES = 30000;
  const connection = document.getElementById("connection");
  let stream = null;
  let timer = null;
  let reading = false;
  let again = false;

  const tell = (text) => {
    if (connection && connection.textContent !== text) connection.textContent = text;
  };

  // Ages count up by themselves, and copies have buttons that the server does not know.
  const plain = (html) => html.replace(/(<time [^>]*data-age[^>]*>)[^<]*/g, "$1").replace(/ data-copied=""|<button type="button">Cop(y|ied)<\/button>/g, "");

  // Rows that are the same stay the same elements, so that focus and selection stay with them.
  function swapRows(old, fresh) {
    const known = new Map([...old.children].map((row) => [row.id, row]));
    const rows = [...fresh.children].map((row) => {
      const same = known.get(row.id);
      return same && plain(same.outerHTML) === plain(row.outerHTML) ? same : document.importNode(row, true);
    });
    if (rows.length !== old.children.length || rows.some((row, at) => row !== old.children[at])) {
      old.replaceChildren(...rows);
    }
  }

  function show(page) {
    const focused = document.activeElement && document.activeElement.id;
    for (const part of document.querySelectorAll("[data-live]")) {
      const fresh = page.getElementById(part.id);
      if (!fresh || plain(fresh.innerHTML) === plain(part.innerHTML)) continue;
      if (part.tagName === "TBODY") swapRows(part, fresh);
      else part.replaceChildren(...[...fresh.childNodes].map((node) => document.importNode(node, true)));
    }
    document.dispatchEvent(new Event("shown"));
    const target = focused && document.getElementById(focused);
    if (target && target !== document.activeElement) target.focus({ preventScroll: true });
  }

  async function read() {
    timer = null;
    if (reading) {
      again = true;
      return;
    }
    reading = true;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "error" });
      if (answer.ok) show(new DOMParser().parseFromString(await answer.text(), "text/html"));
      else if (answer.status === 401) tell("▲ Signed out: load the page again, which says how to sign in.");
      else tell("▲ This page is no longer there (" + answer.status + ").");
    } catch {
      tell("▲ Not connected: this is what was last seen.");
    }
    reading = false;
    if (again) {
      again = false;
      soon();
    }
  }

  function soon() {
    if (timer === null) timer = setTimeout(read, GATHER);
  }

  function open() {
    if (stream || document.hidden) return;
    stream = new EventSource("/api/v1/stream");
    stream.addEventListener("open", () => {
      tell("Live.");
      soon();
    });
    stream.addEventListener("changed", soon);
    stream.addEventListener("error", () => {
      // A browser gives up after a refusal, whose reason only an answer tells; a lost connection it opens again by itself.
      if (stream && stream.readyState === EventSource.CLOSED) {
        close();
        soon();
        setTimeout(open, RETRY);
      } else tell("▲ Not connected: this is what was last seen.");
    });
  }

  function close() {
    if (stream) stream.close();
    stream = null;
  }

  // Ages are part of what is shown.
  setInterval(() => {
    if (stream) soon();
  }, AGES);
  // A hidden tab holds no connection: browsers have six for a site.
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
  open();
})();
