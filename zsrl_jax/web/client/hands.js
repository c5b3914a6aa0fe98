// What hands do: the mouse, touch, keys and buttons of the robot; copying.

const $ = (id) => document.getElementById(id);
const STILL = 5; // pixels that a click may move

// Listen to everything that is not a prompt.
export function listen(page) {
  const view = $("view");
  let down = null;
  view.addEventListener("pointerdown", (event) => { down = [event.clientX, event.clientY]; });
  view.addEventListener("pointerup", (event) => {
    const moved = down && Math.hypot(event.clientX - down[0], event.clientY - down[1]);
    down = null;
    if (moved !== null && moved < STILL) page.pushAt(event.clientX, event.clientY);
  });
  $("pause").addEventListener("click", () => page.pause());
  $("slow").addEventListener("click", () => page.slow());
  $("push").addEventListener("click", () => page.pushAside(1));
  $("reset").addEventListener("click", () => page.restart());
  $("record").addEventListener("click", () => page.record());
  $("copy").addEventListener("click", () => copy($("copy"), $("code").textContent));
  $("link").addEventListener("click", () => copy($("link"), location.href));
  addEventListener("keydown", (event) => onKey(page, event));
}

function onKey(page, event) {
  const isTyping = event.target.closest?.("textarea, input, [role=tab]");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  const acts = {
    r: () => page.restart(), s: () => page.slow(),
    ArrowLeft: () => page.pushAside(-1), ArrowRight: () => page.pushAside(1),
  };
  if (event.key === " " && event.target.tagName !== "BUTTON" && event.target.tagName !== "SUMMARY") {
    event.preventDefault();
    page.pause();
  } else if (acts[event.key]) {
    event.preventDefault();
    acts[event.key]();
  }
}

async function copy(button, text) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select and copy by hand";
  }
  setTimeout(() => { button.textContent = before; }, 1500);
}
