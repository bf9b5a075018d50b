// Shows what the form becomes while it is filled in. Without it, the button does; everything is made on the server.
"use strict";
(() => {
  const DEBOUNCE = 250;
  const form = document.getElementById("model-form");
  // A button has the name that would hide the form's own address.
  const address = form.getAttribute("action");
  const live = document.getElementById("live");
  let timer = null;
  let turn = 0;

  const tell = (text) => {
    if (live.textContent !== text) live.textContent = text;
  };

  // What somebody is typing in stays as it is; everything else says what the text says.
  function showField(own, fresh) {
    if (own.tagName !== fresh.tagName) {
      own.replaceWith(document.importNode(fresh, true));
      return;
    }
    if (fresh.hasAttribute("aria-invalid")) own.setAttribute("aria-invalid", "true");
    else own.removeAttribute("aria-invalid");
    own.disabled = fresh.disabled;
    if (fresh.placeholder !== undefined) own.placeholder = fresh.placeholder;
    if (own === document.activeElement) return;
    if (own.type === "radio") {
      own.checked = fresh.checked;
      return;
    }
    if (own.tagName === "SELECT") {
      own.replaceChildren(...[...fresh.children].map((option) => document.importNode(option, true)));
    }
    if (own.value !== fresh.value) own.value = fresh.value;
  }

  function show(page) {
    for (const part of document.querySelectorAll("[data-part]")) {
      const fresh = page.getElementById(part.id);
      if (!fresh || fresh.innerHTML === part.innerHTML) continue;
      const open = new Set([...part.querySelectorAll("details[open] > summary")].map((one) => one.textContent));
      part.replaceChildren(...[...fresh.childNodes].map((node) => document.importNode(node, true)));
      for (const summary of part.querySelectorAll("summary")) {
        if (open.has(summary.textContent)) summary.parentElement.open = true;
      }
    }
    // Whoever types in the YAML has not what fields added to it: then fields and their base stay as they are, and are sent again.
    const yaml = document.getElementById("yaml");
    if (yaml === document.activeElement && yaml.value !== page.getElementById("yaml").value) return;
    for (const fresh of page.querySelectorAll("#model-form :is(input, select, textarea)[id]")) {
      const own = document.getElementById(fresh.id);
      if (own) showField(own, fresh);
    }
  }

  async function read() {
    timer = null;
    const own = ++turn;
    const body = new URLSearchParams(new FormData(form));
    try {
      const answer = await fetch(address, { method: "POST", body, headers: { Accept: "text/html" }, redirect: "error" });
      const text = await answer.text();
      // Something was typed since: a later answer tells.
      if (own !== turn || timer !== null) return;
      const page = new DOMParser().parseFromString(text, "text/html");
      if (page.getElementById("model-form")) {
        show(page);
        const problems = page.querySelectorAll("#summary li").length;
        tell(problems === 0 ? "" : problems === 1 ? "1 error." : problems + " errors.");
      } else if (answer.status === 401) tell("▲ Signed out: sign in on another tab, and go on here.");
      else tell("▲ " + (page.querySelector("h1") || { textContent: "No answer" }).textContent + ".");
    } catch {
      tell("▲ Not connected: what is shown may not be what it becomes.");
    }
  }

  const soon = () => {
    if (timer !== null) clearTimeout(timer);
    timer = setTimeout(read, DEBOUNCE);
  };
  let isChanged = false;
  form.addEventListener("input", () => {
    isChanged = true;
    soon();
  });
  document.getElementById("yaml").addEventListener("blur", () => {
    if (isChanged) soon();
  });
  form.addEventListener("submit", () => (isChanged = false));
  addEventListener("beforeunload", (event) => {
    if (isChanged) event.preventDefault();
  });
})();
