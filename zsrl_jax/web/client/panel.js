// The panel: what can be asked, and what the page says about the answer.

import { chip, make, press, slider } from "./controls.js";
import { FUNCTIONS } from "./language.js";
import { Poser } from "./poses.js";
import { distance, nearness, quoted, understanding } from "./words.js";

const $ = (id) => document.getElementById(id);

// Fill the panel with what this agent can be asked.
export function fillPanel(page) {
  fillReward(page);
  fillGoal(page);
  fillClips(page);
  fillTasks(page);
}

function fillReward(page) {
  for (const [label, text] of page.facts.examples) {
    const button = chip(label, text, () => page.setReward(text));
    button.dataset.text = text;
    $("examples").append(button);
  }
  page.sliders = new Map();
  for (const name of page.names.filter((each) => varies(page.columns.get(each)))) {
    const range = { low: -1, high: 1, step: 0.1, value: 0 };
    const row = slider(name, range, () => page.setReward(mixed(page), "sliders"));
    page.sliders.set(name, row);
    $(/_\d+$|center_of_mass/.test(name) ? "others" : "sliders").append(row);
  }
  $("more").hidden = !$("others").children.length;
  $("mix").open = matchMedia("(min-width: 821px)").matches; // a phone shows the answer instead
  const list = (words) => make("code", {}, words.join("  "));
  $("language").append(
    make("p", {}, "Quantities: ", list(page.names)),
    make("p", {}, "Functions: ", list([...FUNCTIONS.keys()])),
    make("p", {}, "Signs: ", list(["+ - * / **", "< <= > >= == !=", "and or not"])));
  $("text").addEventListener("input", () => page.setReward($("text").value, "text"));
}

// Tell whether a quantity differs between states of the data; a robot in a plane has some that do not.
function varies(column) {
  let low = Infinity, high = -Infinity;
  for (const value of column) { low = Math.min(low, value); high = Math.max(high, value); }
  return high - low > 1e-6;
}

function mixed(page) {
  const terms = [...page.sliders].map(([name, row]) => [row.get(), name]).filter(([w]) => w);
  if (!terms.length) return "0";
  return terms.map(([weight, name], i) => {
    const size = Math.abs(weight) === 1 ? name : `${Math.abs(weight)}*${name}`;
    return weight < 0 ? `${i ? " - " : "-"}${size}` : `${i ? " + " : ""}${size}`;
  }).join("");
}

function fillGoal(page) {
  page.poser = new Poser($("joints"), page.robot, (physics) => page.setGoal(physics, "sliders"));
  page.rows("poses").forEach((physics, i) => {
    const pose = chip(`${i + 1}`, `Pose ${i + 1} of the data`, (button) => {
      page.setGoal(physics);
      press($("poses"), button);
    });
    pose.setAttribute("aria-label", pose.title);
    $("poses").append(pose);
  });
}

function fillClips(page) {
  page.clips = page.facts.clips.map((label, i) => (
    { label, obs: page.rows(`clip/${i}/obs`), physics: page.rows(`clip/${i}/physics`) }));
  page.clips.forEach(({ label }, i) => {
    $("clips").append(chip(label, `A clip of the data: ${label}`, () => page.setClip(i)));
  });
  if (!page.clips.length) {
    $("clips").append(make("p", { className: "small" }, "No clips: the data was not at hand when this page was made."));
  }
}

function fillTasks(page) {
  const { scores, tasks } = page.facts;
  for (const task of Object.keys(tasks)) {
    const at = scores ? scores.tasks.indexOf(task) : -1;
    const bar = make("span", { className: "bar" });
    let told = "";
    if (at >= 0) {
      const mark = make("i"), chance = make("b", { title: "random policy" });
      mark.style.width = `${Math.min(100, scores.agent[at] / 10)}%`;
      chance.style.left = `${Math.min(99, scores.random[at] / 10)}%`;
      bar.append(mark, chance);
      told = `${scores.agent[at].toFixed(0)}`;
    }
    const button = make("button", { type: "button" },
      make("span", {}, task.replaceAll("_", " ")), bar, make("em", {}, told));
    button.setAttribute("aria-pressed", "false");
    button.setAttribute("aria-label", told
      ? `${task}: score ${told} of 1000, random policy ${scores.random[at].toFixed(0)}` : task);
    button.dataset.task = task;
    button.addEventListener("click", () => page.setReward(task));
    $("tasks").append(button);
  }
  $("source").textContent = scores ? scores.told : "This run has no scores.";
}

// Say what the answer to a prompt is worth, and the Python that does the same.
export function showAnswer(page) {
  const { prompt } = page;
  $("problem").hidden = true;
  $("text").removeAttribute("aria-invalid");
  const first = prompt.kind === "reward" ? understanding(prompt.r2)
    : prompt.kind === "goal" ? "It tries to reach this pose." : "It repeats what it was shown.";
  $("meaning").textContent = prompt.kind === "reward"
    ? "Reward it earns now" : "How well it matches now (1: exactly)";
  const parts = [first, nearness(prompt.cosine), distance(prompt.far)];
  $("verdict").textContent = parts.filter(Boolean).join(" ");
  const measures = [];
  if (prompt.kind === "reward") {
    measures.push(["R², on states left out", Number.isFinite(prompt.r2) ? prompt.r2.toFixed(2) : "–"]);
  }
  if (Number.isFinite(prompt.cosine)) measures.push(["cosine to its training", prompt.cosine.toFixed(2)]);
  $("measures").replaceChildren(...measures.map(([name, value]) => (
    make("div", {}, make("dt", {}, name), make("dd", {}, value)))));
  $("code").textContent = codeOf(page);
}

// Say what is wrong with a text, and at which character; the robot goes on as before.
export function showProblem(error, text) {
  const place = error.place;
  let told = error.message;
  if (place !== undefined && !text.includes("\n")) {
    const from = Math.max(0, place - 24), shown = Array.from(text).slice(from, place + 16).join("");
    told = `${shown}\n${" ".repeat(place - from)}^\n${told}`;
  }
  $("problem").textContent = told;
  $("problem").hidden = false;
  $("text").setAttribute("aria-invalid", "true");
}

// Return the lines of Python that do the same.
function codeOf(page) {
  const { prompt, facts } = page;
  const lines = ["import zsrl_jax", `agent = zsrl_jax.load(${quoted(facts.call)})`];
  if (prompt.kind === "reward") lines.push(`z = agent.infer(reward=${quoted(prompt.text)})`);
  if (prompt.kind === "goal") {
    lines.push(`z = agent.infer(goal=[${prompt.obs.map((x) => +x.toFixed(4)).join(", ")}])`);
  }
  if (prompt.kind === "demonstration") {
    const z = Array.from(prompt.z, (x) => +x.toFixed(4)).join(", ");
    if (facts.seeds === 1) lines.push(`z = [[${z}]]  # agent.infer(demonstration=what it was shown)`);
    else lines.push("z = agent.infer(demonstration=observations)");
  }
  return [...lines, "action = agent.act(observation, z)"].join("\n");
}
