// Shows lines as they are written. Without it, the page shows those of the moment at which it was opened.
"use strict";
(() => {
  const MOST = 5000000;
  const button = document.getElementById("follow");
  const said = document.getElementById("following");
  const log = document.getElementById("log");
  let reading = null;
  // Characters that are shown of what came.
  let shown = 0;

  // Everything that hides or turns text is made visible, as the server does.
  const visible = (text) => text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g, (one) => "\\u{" + one.charCodeAt(0).toString(16) + "}");

  function add(text) {
    const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    log.append(visible(text));
    shown += text.length;
    while (shown > MOST && log.childNodes.length > 1) {
      shown -= log.firstChild.length;
      log.firstChild.remove();
    }
    if (isAtEnd) log.scrollTop = log.scrollHeight;
  }

  async function follow(ending) {
    const answer = await fetch(button.dataset.follow, { signal: ending.signal, redirect: "error" });
    if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).title || "Not connected");
    log.replaceChildren();
    shown = 0;
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) add(part.value);
  }

  button.hidden = false;
  button.addEventListener("click", async () => {
    if (reading) {
      reading.abort();
      return;
    }
    const own = (reading = new AbortController());
    button.textContent = "Stop";
    said.textContent = "Following.";
    try {
      await follow(own);
      said.textContent = "The log ended.";
    } catch (error) {
      said.textContent = own.signal.aborted ? "" : "▲ " + error.message + ".";
    }
    reading = null;
    button.textContent = "Follow";
  });
  addEventListener("pagehide", () => reading && reading.abort());
  log.scrollTop = log.scrollHeight;
})();
