// The robot: MuJoCo, stepped as zsrl_jax/envs/simulator.py does.

const FUNCTIONS = {
  same: (x) => x, asinh: Math.asinh, log1p: Math.log1p, sin: Math.sin, cos: Math.cos,
  tanh: Math.tanh, negative: (x) => -x,
};

export class Robot {
  constructor(mujoco, files, facts) {
    this.mujoco = mujoco;
    this.facts = facts;
    mujoco.FS.mkdir("/robot");
    for (const [name, text] of Object.entries(files)) {
      const folders = name.split("/").slice(0, -1);
      folders.forEach((_, i) => {
        const folder = `/robot/${folders.slice(0, i + 1).join("/")}`;
        if (!mujoco.FS.analyzePath(folder).exists) mujoco.FS.mkdir(folder);
      });
      mujoco.FS.writeFile(`/robot/${name}`, text);
    }
    this.model = mujoco.MjModel.from_xml_path(`/robot/${facts.model}`);
    this.data = new mujoco.MjData(this.model);
    this.shadow = new mujoco.MjData(this.model); // poses that are looked at, not lived in
    this.seconds = this.model.opt.timestep * facts.substeps; // per control step
    const [low, high] = facts.control;
    this.low = low;
    this.half = high.map((value, i) => (value - low[i]) / 2);
    this.pushes = [];
  }

  // Return [qpos, qvel, act].
  physics(data = this.data) {
    return [...data.qpos, ...data.qvel, ...data.act];
  }

  // Put a state into MjData as an episode starts: without the forces of actuators.
  place(physics, data = this.data) {
    const { mujoco, model } = this, { nq, nv, na } = model;
    mujoco.mj_resetData(model, data);
    data.qpos.set(physics.slice(0, nq));
    data.qvel.set(physics.slice(nq, nq + nv));
    if (na) data.act.set(physics.slice(nq + nv, nq + nv + na));
    const flags = model.opt.disableflags;
    model.opt.disableflags = flags | mujoco.mjtDisableBit.mjDSBL_ACTUATION.value;
    mujoco.mj_forward(model, data);
    model.opt.disableflags = flags;
    if (data === this.data) this.pushes = [];
  }

  // Apply an action in [-1, 1] for one control step.
  step(action) {
    const { mujoco, model, data } = this;
    const control = this.facts.native
      ? action : action.map((value, i) => this.low[i] + this.half[i] * (value + 1));
    data.ctrl.set(control);
    const force = data.xfrc_applied;
    force.fill(0);
    this.pushes = this.pushes.filter((push) => push.steps-- > 0);
    for (const { body, vector } of this.pushes) {
      vector.forEach((value, i) => { force[6 * body + i] += value; });
    }
    for (let i = 0; i < this.facts.substeps; i++) mujoco.mj_step(model, data);
    mujoco.mj_step1(model, data); // fields of position and velocity belong to the new state
  }

  // Push a body for a fifth of a second; the vector is in units of the robot's weight.
  push(body, vector) {
    const weight = this.model.body_subtreemass[1] * 9.81;
    const steps = Math.max(1, Math.round(0.2 / this.seconds));
    this.pushes.push({ body, vector: vector.map((value) => value * weight), steps });
  }

  observe(data = this.data) {
    const fields = new Map(), entries = this.facts.observation, out = new Float64Array(entries.length);
    entries.forEach(([field, index, name], i) => {
      if (!fields.has(field)) fields.set(field, data[field]);
      out[i] = FUNCTIONS[name](fields.get(field)[index]);
    });
    return out;
  }

  // Return a reader of the named quantities of the state; null for those not known live.
  measure(data = this.data) {
    this.mujoco.mj_subtreeVel(this.model, data);
    const fields = new Map();
    return (name) => {
      const entry = this.facts.quantities[name];
      if (!entry) return null;
      if (!fields.has(entry[0])) fields.set(entry[0], data[entry[0]]);
      return fields.get(entry[0])[entry[1]];
    };
  }

  // Return the observation of a state.
  observationOf(physics) {
    this.place(physics, this.shadow);
    return this.observe(this.shadow);
  }
}
