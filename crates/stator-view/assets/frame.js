// Theme, keys, ages and copies. Without it, pages follow the system's theme and say what they say.
"use strict";
(() => {
  const THEMES = ["auto", "light", "dark"];
  const GO = { m: "/", s: "/sources", c: "/changes", v: "/previews", p: "/capacity", n: "/new" };
  const root = document.documentElement;

  const stored = () => {
    try {
      return THEMES.includes(localStorage.theme) ? localStorage.theme : "auto";
    } catch {
      return "auto";
    }
  };
  const paint = (theme) => {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
  };
  // Before anything is shown.
  paint(stored());

  // As the server writes ages.
  function age(seconds) {
    if (seconds < 120) return seconds + "s";
    if (seconds < 7200) return Math.floor(seconds / 60) + "m";
    if (seconds < 172800) return Math.floor(seconds / 3600) + "h";
    return Math.floor(seconds / 86400) + "d";
  }

  function countUp() {
    for (const time of document.querySelectorAll("time[data-age]")) {
      const then = Date.parse(time.dateTime);
      const found = /^(\D*)\d+[smhd](.*)$/.exec(time.textContent);
      if (!found || Number.isNaN(then)) continue;
      const text = found[1] + age(Math.max(0, Math.floor((Date.now() - then) / 1000))) + found[2];
      if (time.textContent !== text) time.textContent = text;
    }
  }

  function step(by) {
    const rows = [...document.querySelectorAll("tbody th a, section > h2 > a")];
    if (rows.length === 0) return;
    const at = rows.indexOf(document.activeElement);
    const next = at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by));
    rows[next].focus();
    rows[next].scrollIntoView({ block: "nearest" });
  }

  // When `g` was pressed; it waits for another key for a moment.
  let going = 0;
  const GO_WITHIN = 1500;
  function press(event) {
    const target = event.target;
    if (event.ctrlKey || event.metaKey || event.altKey || target.isContentEditable) return;
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) return;
    const keys = document.getElementById("keys");
    if (keys.open) return;
    if (Date.now() - going < GO_WITHIN) {
      going = 0;
      if (GO[event.key]) location.href = GO[event.key];
      return;
    }
    if (event.key === "g") going = Date.now();
    else if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === "?") keys.showModal();
    else if (event.key === "/") {
      event.preventDefault();
      document.getElementById("search").focus();
    }
  }

  // A button beside each command that people copy.
  function offerCopies() {
    if (!navigator.clipboard) return;
    for (const pre of document.querySelectorAll("pre.command:not([data-copied])")) {
      pre.dataset.copied = "";
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = "Copy";
      button.addEventListener("click", async () => {
        await navigator.clipboard.writeText(pre.textContent.trim());
        button.textContent = "Copied";
        setTimeout(() => (button.textContent = "Copy"), 2000);
      });
      pre.before(button);
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    const theme = document.getElementById("theme");
    const say = () => (theme.textContent = "Theme: " + stored());
    theme.hidden = false;
    say();
    theme.addEventListener("click", () => {
      const next = THEMES[(THEMES.indexOf(stored()) + 1) % THEMES.length];
      try {
        localStorage.theme = next;
      } catch {
        // Where nothing may be stored, it holds for this page.
      }
      paint(next);
      say();
    });
    const help = document.getElementById("help");
    help.hidden = false;
    help.addEventListener("click", () => document.getElementById("keys").showModal());
    document.addEventListener("keydown", press);
    offerCopies();
    document.addEventListener("shown", offerCopies);
    setInterval(countUp, 1000);
  });
})();
