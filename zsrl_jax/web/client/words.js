// What the page says about an answer, in plain words.

// Return how well the features express a reward.
export function understanding(r2) {
  if (!(r2 >= 0.1)) return "It hardly understands this reward: expect little.";
  if (r2 < 0.5) return "It understands this reward in part.";
  if (r2 < 0.8) return "It understands most of this reward.";
  return "It understands this reward well.";
}

// Return how near a prompt is to the behaviours that it was trained on.
export function nearness(cosine) {
  if (!Number.isFinite(cosine)) return "";
  if (cosine < 0.5) return "It has hardly seen anything like it.";
  if (cosine < 0.7) return "It has seen something a little like it.";
  if (cosine < 0.9) return "It has seen something like it.";
  return "It has seen this often.";
}

// Return what the page says about states far from the data.
export function distance(deviations) {
  if (!deviations) return "";
  return `This lies ${deviations.toFixed(0)} deviations outside of what it knows: expect little.`;
}

// Return a text as a string of Python.
export function quoted(text) {
  return JSON.stringify(text).replace(/[\u007f-\uffff]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
