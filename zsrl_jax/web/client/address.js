// The prompt in the address: a link is a behaviour.

// Return a vector as letters that an address may hold: its float32 bytes, in base64url.
export function lettersOf(vector) {
  const bytes = new Uint8Array(Float32Array.from(vector).buffer);
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

// Return the vector of such letters; null if they are not one of this width.
export function vectorOf(letters, width) {
  if (!/^[\w-]*$/.test(letters) || letters.length !== Math.ceil(width * 16 / 3)) return null;
  const plain = atob(letters.replaceAll("-", "+").replaceAll("_", "/"));
  const vector = new Float32Array(Uint8Array.from(plain, (c) => c.charCodeAt(0)).buffer);
  return vector.every(Number.isFinite) && vector.some((x) => x !== 0) ? vector : null;
}

// Write a prompt into the address.
export function remember(page, hash) {
  page.hash = hash;
  history.replaceState(null, "", hash ? `#${hash}` : "#");
}

// Ask for what the address says; for the first example, if that is nothing or wrong.
export function readAddress(page) {
  const [kind, ...rest] = location.hash.slice(1).split("="), value = rest.join("=");
  if (kind === "goal" && readGoal(page, value)) return;
  if (kind === "recording" && readRecording(page, value)) return;
  if (kind === "clip" && page.clips[Number(value)]) {
    page.chooseTab("show");
    page.setClip(Number(value));
    return;
  }
  let text = page.facts.examples[0]?.[1] ?? page.names[0];
  page.setReward(text);
  if (kind === "reward") {
    try { text = decodeURIComponent(value); } catch { return; }
    page.chooseTab("reward");
    page.setReward(text);
  }
}

function readGoal(page, value) {
  const { nq, nv, na } = page.robot.model, physics = value.split(",").map(Number);
  if (physics.length !== nq + nv + na || !physics.every(Number.isFinite)) return false;
  page.chooseTab("goal");
  page.setGoal(physics);
  return true;
}

function readRecording(page, value) {
  const own = vectorOf(value, page.agent.dim);
  if (!own) return false;
  page.chooseTab("show");
  page.takeRecorded(page.agent.ofShown(own));
  return true;
}
