// The page: prompts from the panel, and the loop that lives in real time.

import loadMujoco from "mujoco";
import { lettersOf, readAddress, remember } from "./address.js";
import { Agent } from "./prompts.js";
import { Chart } from "./chart.js";
import { makeTabs, press } from "./controls.js";
import { listen } from "./hands.js";
import { evaluate, namesIn, parse, valueAt } from "./language.js";
import { fillPanel, showAnswer, showProblem } from "./panel.js";
import { Robot } from "./robot.js";
import { Scene } from "./scene.js";

const $ = (id) => document.getElementById(id);
const SLOW = 0.2; // of real time
const RECORD = 2; // seconds of a recording
const LATE = 0.25; // seconds behind real time, beyond which time is let go

export async function start(facts, arrays, files, wasm, licences) {
  const quiet = () => {}; // MuJoCo tells of an attribute in dm_control's files that is out of date
  const mujoco = await loadMujoco(
    { wasmBinary: wasm, locateFile: (name) => name, print: quiet, printErr: quiet });
  performance.mark("mujoco");
  const robot = new Robot(mujoco, files, facts);
  const page = new Page(facts, arrays, robot, new Agent(facts, arrays));
  $("licences").textContent = licences;
  page.restart();
  performance.mark("robot");
  page.scene = new Scene($("view"), robot);
  performance.mark("scene");
  listen(page);
  addEventListener("hashchange", () => {
    if (location.hash.slice(1) !== page.hash) readAddress(page);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => page.scene.paint());
  readAddress(page);
  requestAnimationFrame((now) => page.frame(now));
  $("loading").hidden = true;
  return page;
}

class Page {
  constructor(facts, arrays, robot, agent) {
    Object.assign(this, { facts, arrays, robot, agent });
    this.language = { parse, evaluate };
    this.names = Object.keys(facts.quantities);
    this.columns = new Map(this.names.map((name) => [name, arrays.get(`quantity/${name}`)]));
    this.chart = new Chart($("chart"), $("now"));
    this.prompt = null; // {kind, z, r2, cosine, tree}
    this.starts = 0;
    this.time = 0; // simulated, in seconds
    this.speed = 1;
    this.isPaused = false;
    this.recording = null;
    this.ghost = null; // a function of time that gives a state, or null
    fillPanel(this);
    this.chooseTab = makeTabs($("tabs"), (name) => this.onTab(name));
  }

  rows(name) {
    const array = this.arrays.get(name), [count, width] = array.shape;
    return Array.from({ length: count }, (_, i) => Array.from(array.subarray(i * width, (i + 1) * width)));
  }

  onTab(name) {
    if (name !== "show" && this.recording) this.stopRecording(false);
    if (name === "goal" && this.prompt?.kind !== "goal") this.poser.show(this.robot.physics());
  }

  // ---- prompts ----

  // Ask for a reward by its text; a task's name stands for the task.
  setReward(text, from = "button") {
    if (from !== "text") $("text").value = text;
    if (from !== "sliders") for (const row of this.sliders.values()) row.set(0);
    const task = text.trim();
    try {
      const isTask = Object.hasOwn(this.facts.tasks, task);
      const told = isTask ? this.facts.tasks[task] : text;
      const tree = told === null ? null : parse(told, this.names);
      const values = tree === null ? this.arrays.get(`task/${task}`)
        : evaluate(tree, this.columns, this.agent.count);
      const answer = this.agent.ofReward(values);
      this.take({ kind: "reward", tree, text, ...answer });
      remember(this, `reward=${encodeURIComponent(text)}`);
    } catch (error) {
      showProblem(error, text);
      return false;
    }
    press($("tasks"), $("tasks").querySelector(`[data-task="${CSS.escape(task)}"]`));
    press($("examples"), [...$("examples").children].find((b) => b.dataset.text === text.trim()));
    return true;
  }

  setGoal(physics, from = "button") {
    if (from !== "sliders") this.poser.show(physics);
    press($("poses"), null);
    const obs = this.robot.observationOf(physics);
    this.ghost = () => physics;
    this.take({ kind: "goal", tree: null, obs: Array.from(obs), ...this.agent.ofGoal(obs) });
    const digits = physics.map((x) => +x.toFixed(4));
    remember(this, `goal=${digits.join(",")}`);
  }

  setClip(index) {
    const { obs, physics } = this.clips[index];
    press($("clips"), $("clips").children[index]);
    this.ghost = (time) => physics[Math.floor(time / this.robot.seconds) % physics.length];
    this.take({ kind: "demonstration", clip: index, tree: null, ...this.agent.ofDemonstration(obs) });
    remember(this, `clip=${index}`);
  }

  setRecorded(states) {
    this.takeRecorded(this.agent.ofDemonstration(states));
  }

  // Take the answer to a recording, now made or of an address.
  takeRecorded(answer) {
    press($("clips"), null);
    this.ghost = null;
    this.take({ kind: "demonstration", clip: null, tree: null, ...answer });
    remember(this, `recording=${lettersOf(answer.own)}`);
  }

  take(prompt) {
    this.prompt = prompt;
    this.chart.clear();
    if (prompt.kind === "reward") this.ghost = null;
    if (prompt.kind !== "reward") for (const id of ["tasks", "examples"]) press($(id), null);
    if (prompt.kind !== "goal") press($("poses"), null);
    if (prompt.kind !== "demonstration") press($("clips"), null);
    showAnswer(this);
  }

  // ---- the robot ----

  pause() {
    this.isPaused = !this.isPaused;
    $("pause").setAttribute("aria-pressed", String(this.isPaused));
  }

  slow() {
    this.speed = this.speed === 1 ? SLOW : 1;
    $("slow").setAttribute("aria-pressed", String(this.speed !== 1));
  }

  restart() {
    const starts = this.rows("starts");
    this.robot.place(starts[this.starts++ % starts.length]);
    this.chart.clear();
  }

  pushAt(x, y) {
    const hit = this.scene.pick(x, y);
    if (!hit) return;
    const { point, ray, body } = hit, direction = ray.clone();
    if (this.facts.arena) direction.z = 0;
    else if (this.facts.planar) {
      const centre = this.scene.centre();
      direction.set(Math.sign(centre[0] - point.x) || 1, 0, 0.35);
    } else direction.z = Math.max(direction.z, 0.15);
    direction.normalize();
    this.robot.push(body, [direction.x, direction.y, direction.z].map((v) => 1.2 * v));
    this.scene.showPush(point, direction);
  }

  pushAside(sign) {
    const centre = this.scene.centre(), point = this.scene.orbit.target.clone().set(...centre);
    const direction = point.clone().set(sign, 0, 0.35).normalize();
    this.robot.push(1, [direction.x, direction.y, direction.z].map((v) => 1.2 * v));
    this.scene.showPush(point, direction);
  }

  record() {
    if (this.recording) { this.stopRecording(true); return; }
    this.recording = [];
    $("record").setAttribute("aria-pressed", "true");
    $("record").textContent = "Recording …";
  }

  stopRecording(isKept) {
    const states = this.recording;
    this.recording = null;
    $("record").setAttribute("aria-pressed", "false");
    $("record").textContent = "Record what it does now";
    if (isKept && states.length > 1) this.setRecorded(states);
  }

  // Live one control step.
  step() {
    const { robot, prompt, agent } = this, obs = robot.observe();
    if (this.recording) {
      this.recording.push(obs);
      if (this.recording.length * robot.seconds >= RECORD) this.stopRecording(true);
    }
    robot.step(Array.from(agent.act(obs, prompt.z)));
    this.time += robot.seconds;
    const reward = this.rewardNow(obs);
    if (Number.isFinite(reward)) this.chart.add(this.time, reward);
    if (!robot.physics().every(Number.isFinite)) this.restart();
  }

  // Return the reward of the last step: of the text, else of the features, above the data's mean.
  rewardNow(before) {
    const { prompt, robot, agent } = this;
    if (prompt.kind !== "reward") {
      const phi = agent.features(before, robot.observe()), mean = this.arrays.get("all/mean");
      return phi.reduce((sum, value, j) => sum + (value - mean[j]) * prompt.z[j], 0) / agent.facts.radius ** 2;
    }
    if (!prompt.tree) return NaN;
    const get = robot.measure();
    if (namesIn(prompt.tree).some((name) => !this.facts.quantities[name])) return NaN;
    return valueAt(prompt.tree, get);
  }

  frame(now) {
    const passed = Math.min((now - (this.last ?? now)) / 1000, LATE);
    this.last = now;
    if (!this.isPaused) this.due = (this.due ?? 0) + passed * this.speed;
    while (this.due >= this.robot.seconds) {
      this.step();
      this.due -= this.robot.seconds;
    }
    this.scene.showGhost(this.ghost && this.ghost(this.time));
    this.scene.draw(now);
    this.chart.draw();
    requestAnimationFrame((next) => this.frame(next));
  }
}
